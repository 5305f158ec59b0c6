// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

/// Its destructor finalises Kokkos if start_kokkos() was called. One in a process, made by main after MPI and
/// before any device.
class KokkosScope {
 public:
  KokkosScope();  ///< @throws InternalError if there is one
  KokkosScope(const KokkosScope&) = delete;
  KokkosScope& operator=(const KokkosScope&) = delete;
  ~KokkosScope();
};

/// Starts Kokkos unless it runs. Call it before launching kernels, and only then: a Kokkos built for GPUs
/// cannot start without one, and the program must start there as long as it computes on the CPU.
/// @param gpu ordinal of the GPU that runs kernels; −1 with a Kokkos for the CPU.
/// @throws InternalError without a KokkosScope.
void start_kokkos(int gpu);

/// "4.7.1"; "not built in" where no loops for GPUs are.
std::string kokkos_version();

}  // namespace flotilla
