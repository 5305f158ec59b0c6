// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "kernels/precision.hpp"

namespace flotilla::mpi {

/// The format of floats in messages between processes.
using Wire = Precision;

std::size_t bytes_per_value(Wire wire);

/// Rounds to the nearest value of the wire, ties to even. float16 (IEEE 754 binary16) ends at 65504: 65520
/// and beyond become infinite, below 2⁻¹⁴ steps are 2⁻²⁴. bfloat16 has float's range and 8 bits of precision.
/// NaN stays NaN. `to`: values.size() · bytes_per_value(wire).
void encode(Wire wire, std::span<const float> values, std::byte* to);

/// Exact. `from` as encode() left it.
void decode(Wire wire, const std::byte* from, std::span<float> values);

/// values[i] += decoded[i], in float.
void decode_and_add(Wire wire, const std::byte* from, std::span<float> values);

}  // namespace flotilla::mpi
