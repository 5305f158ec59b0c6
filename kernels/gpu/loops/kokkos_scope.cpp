// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/loops/kokkos_scope.hpp"

#include <Kokkos_Core.hpp>
#include <exception>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

bool scope_is_there = false;

}  // namespace

KokkosScope::KokkosScope() {
  require(!scope_is_there, "there is one KokkosScope, made by main");
  scope_is_there = true;
}

KokkosScope::~KokkosScope() {
  scope_is_there = false;
  // It would wait for the GPU, which may wait for a rank that failed.
  if (Kokkos::is_initialized() && std::uncaught_exceptions() == 0) Kokkos::finalize();
}

void start_kokkos(int gpu) {
  require(scope_is_there, "Kokkos must not outlive main: it starts within a KokkosScope");
  if (Kokkos::is_initialized()) return;
  // Kokkos 3.4 would read our own arguments as its own; without a GPU named here it would choose one itself.
  std::string name = "flotilla";
  std::string device = cat("--kokkos-device-id=", gpu);
  char* arguments[] = {name.data(), gpu < 0 ? nullptr : device.data(), nullptr};
  int count = gpu < 0 ? 1 : 2;
  Kokkos::initialize(count, arguments);
}

std::string kokkos_version() {
  return cat(KOKKOS_VERSION / 10000, ".", KOKKOS_VERSION / 100 % 100, ".", KOKKOS_VERSION % 100);
}

}  // namespace flotilla
