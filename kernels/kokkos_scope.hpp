// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

/// Ends Kokkos, if start_kokkos() was called, when it goes. One in a process, made by main after MPI and
/// before any device.
class KokkosScope {
 public:
  KokkosScope();  ///< @throws InternalError if there is one.
  KokkosScope(const KokkosScope&) = delete;
  KokkosScope& operator=(const KokkosScope&) = delete;
  ~KokkosScope();
};

/// Starts Kokkos unless it runs. Whoever launches kernels needs it. Others do not: a Kokkos for GPUs cannot
/// start where there is none, and the program must, as long as it computes on the CPU.
/// @param gpu The one that kernels shall run on; −1 with a Kokkos for the CPU.
/// @throws InternalError without a KokkosScope.
void start_kokkos(int gpu);

/// "3.4.1". Here, so that no one else includes Kokkos.
std::string kokkos_version();

}  // namespace flotilla
