// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/wire.hpp"

#include <cstdint>
#include <cstring>

#include "kernels/error.hpp"
#include "kernels/half_rounding.hpp"
#include "mpi/core/scaled_wire.hpp"

namespace flotilla::mpi {

namespace {

template <class F>
void encode_each(std::span<const float> values, std::byte* to, F&& code) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = code(values[i]);
    std::memcpy(to + 2 * i, &bits, 2);
  }
}

template <class F>
void decode_each(const std::byte* from, std::size_t count, F&& take) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, 2);
    take(i, bits);
  }
}

}  // namespace

std::size_t encoded_bytes(Wire wire, std::size_t count) {
  const WireFormat& format = format_of(wire);
  const std::size_t bytes = (count * format.bits + 7) / 8;
  return format.scaled ? bytes + (count + scale_block - 1) / scale_block * sizeof(float) : bytes;
}

std::size_t bytes_per_value(Wire wire) {
  require(!is_scaled(wire), "the bytes of a value of ", name(wire), " without its scale");
  return format_of(wire).bits / 8;
}

void encode(Wire wire, std::span<const float> values, std::byte* __restrict to) {
  switch (wire) {
    case Wire::float32:
      if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
      break;
    case Wire::float16: encode_each(values, to, half::float16_of); break;
    case Wire::bfloat16: encode_each(values, to, half::bfloat16_of); break;
    default: require(false, "values are encoded as ", name(wire), " without the draws of its rounding");
  }
}

void decode(Wire wire, const std::byte* __restrict from, std::span<float> values) {
  float* __restrict to = values.data();
  switch (wire) {
    case Wire::float32:
      if (!values.empty()) std::memcpy(to, from, values.size_bytes());
      break;
    case Wire::float16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] = half::float_of_float16(bits); });
      break;
    case Wire::bfloat16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] = half::float_of_bfloat16(bits); });
      break;
    default: decode_scaled(wire, from, values);
  }
}

void decode_and_add(Wire wire, const std::byte* __restrict from, std::span<float> values) {
  float* __restrict to = values.data();
  switch (wire) {
    case Wire::float32:
      for (std::size_t i = 0; i < values.size(); ++i) {
        float value = 0;
        std::memcpy(&value, from + 4 * i, 4);
        to[i] += value;
      }
      break;
    case Wire::float16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] += half::float_of_float16(bits); });
      break;
    case Wire::bfloat16:
      decode_each(from, values.size(),
                  [to](std::size_t i, std::uint16_t bits) { to[i] += half::float_of_bfloat16(bits); });
      break;
    default: decode_and_add_scaled(wire, from, values);
  }
}

}  // namespace flotilla::mpi
