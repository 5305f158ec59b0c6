// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/kokkos_scope.hpp"

namespace flotilla::fake {

/// The fake GPU's loops are Kokkos'.
inline const KokkosScope kokkos("test");

}  // namespace flotilla::fake
