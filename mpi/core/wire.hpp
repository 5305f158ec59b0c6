// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/precision.hpp"

namespace flotilla::mpi {

/// The format of floats in messages between processes; the first ones are those of Precision.
enum class Wire : std::uint8_t { float32, float16, bfloat16, int8, fp8, fp4 };

/// All that decks and reports know of a wire. The values of a scaled one are multiples of a float32 that is
/// sent before each block of scale_block of them (scaled_wire.hpp).
struct WireFormat {
  std::string_view word;  ///< strategy.wire
  std::size_t bits = 32;  ///< Of a value, without its share of a scale
  bool scaled = false;
};

/// By Wire.
inline constexpr std::array wire_formats = {
    WireFormat{"float32", 32, false}, WireFormat{"float16", 16, false}, WireFormat{"bfloat16", 16, false},
    WireFormat{"int8", 8, true},      WireFormat{"fp8", 8, true},       WireFormat{"fp4", 4, true}};

inline constexpr auto wire_words = [] {
  std::array<std::string_view, wire_formats.size()> words{};
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = wire_formats[i].word;
  return words;
}();

constexpr const WireFormat& format_of(Wire wire) {
  return wire_formats[static_cast<std::size_t>(wire)];
}
constexpr std::string_view name(Wire wire) {
  return format_of(wire).word;
}
constexpr bool is_scaled(Wire wire) {
  return format_of(wire).scaled;
}
constexpr Wire wire_of(Precision precision) {
  return static_cast<Wire>(precision);
}

/// Values that share a scale: of 8 bits each, the scale adds 1.6 %.
inline constexpr std::size_t scale_block = 256;

/// Bytes of so many values in one message, scales included.
std::size_t encoded_bytes(Wire wire, std::size_t count);

/// Bytes of one value; the wire must be one without scales, whose values can be sent in any cut.
std::size_t bytes_per_value(Wire wire);

/// Rounds to the nearest value of the wire, ties to even. float16 (IEEE 754 binary16) ends at 65504: 65520
/// and beyond become infinite, below 2⁻¹⁴ steps are 2⁻²⁴. bfloat16 has float's range and 8 bits of precision.
/// NaN stays NaN. `to`: encoded_bytes(). Scaled wires are encoded by encode_scaled().
void encode(Wire wire, std::span<const float> values, std::byte* to);

/// Exact. `from` as encode() or encode_scaled() left it.
void decode(Wire wire, const std::byte* from, std::span<float> values);

/// values[i] += decoded[i], in float.
void decode_and_add(Wire wire, const std::byte* from, std::span<float> values);

}  // namespace flotilla::mpi
