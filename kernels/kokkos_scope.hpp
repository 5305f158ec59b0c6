// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

/// Kokkos is usable from the construction of this to its destruction. One in a process, made by main after
/// MPI and before any device.
class KokkosScope {
 public:
  /// @param program The program's name; Kokkos sees no other argument.
  /// @throws InternalError if Kokkos was initialised before.
  explicit KokkosScope(const char* program);
  KokkosScope(const KokkosScope&) = delete;
  KokkosScope& operator=(const KokkosScope&) = delete;
  ~KokkosScope();
};

/// "3.4.1". Here, so that no one else includes Kokkos.
std::string kokkos_version();

}  // namespace flotilla
