// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

/// Fills with small integers whose sum over `ranks` is exact on the wire, whatever the order of addition. (In
/// float up to some thousand ranks; bfloat16 has zeros only above 256.)
void fill_for_exact_sum(std::span<float> data, Wire wire, int rank, int ranks);

/// Whether every value is the sum over ranks of what fill_for_exact_sum() wrote.
bool is_exact_sum(std::span<const float> result, Wire wire, int ranks);

}  // namespace flotilla::mpi
