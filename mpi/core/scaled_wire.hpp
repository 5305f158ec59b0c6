// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

// Scaled wires: a block of scale_block values (the last of a message may be shorter) is sent as a float32
// step and codes, whose multiples of the step are the values. The largest magnitude of the block is the
// largest code of its format:
//
//     int8   integers from −127 to 127
//     fp8    e4m3: 4 bits of exponent, 3 of fraction, up to 448; below 2⁻⁶ steps are 2⁻⁹
//     fp4    e3m0: 0 and the powers of two from 2⁻² to 2⁴, two codes in a byte
//
// Magnitudes below 2⁻¹⁰⁰ are scaled by 2¹⁰⁰ on the way, so that no step is denormal; their step is sent with
// the sign −. A block with a value that is not finite is NaN as a whole.

/// The draws of a stochastic rounding: functions of a seed, a step, a stream and an element, and of nothing
/// else. Without a key values are rounded to the nearest.
class RoundingDraws {
 public:
  RoundingDraws() = default;
  /// @param stream of the draws of one step, so that workers round independently of each other
  RoundingDraws(std::uint64_t seed, std::uint64_t step, std::uint32_t stream);

  using Key = std::array<std::uint32_t, 2>;
  const std::optional<Key>& key() const { return key_; }

 private:
  std::optional<Key> key_;
};

/// Values on their way, with what rounding leaves of them.
struct RoundedValues {
  std::span<float> values;
  std::span<float> errors;    ///< As many
  std::uint64_t element = 0;  ///< Number of the first value, for the draws
};

/// Encodes values + errors; errors ← values + errors − decoded. The values stay. Where a block is not finite
/// its errors stay too. @param to encoded_bytes()
void encode_scaled(Wire wire, const RoundedValues& rounded, const RoundingDraws& draws, std::byte* to);

/// Encodes the values of a sum; values ← decoded, errors ← errors + values − decoded.
void encode_scaled_sum(Wire wire, const RoundedValues& rounded, const RoundingDraws& draws, std::byte* to);

// decode() and decode_and_add() of these wires.
void decode_scaled(Wire wire, const std::byte* from, std::span<float> values);
void decode_and_add_scaled(Wire wire, const std::byte* from, std::span<float> values);

}  // namespace flotilla::mpi
