// SPDX-License-Identifier: Apache-2.0
#include "kernels/kokkos_scope.hpp"

#include <Kokkos_Core.hpp>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

KokkosScope::KokkosScope(const char* program) {
  require(!Kokkos::is_initialized(), "Kokkos must be initialised once, by main");
  // Kokkos 3.4 would read our own arguments as its own. It may also take entries out of the list.
  std::string name = program;
  char* arguments[] = {name.data(), nullptr};
  int count = 1;
  Kokkos::initialize(count, arguments);
}

KokkosScope::~KokkosScope() {
  Kokkos::finalize();
}

std::string kokkos_version() {
  return cat(KOKKOS_VERSION / 10000, ".", KOKKOS_VERSION / 100 % 100, ".", KOKKOS_VERSION % 100);
}

}  // namespace flotilla
