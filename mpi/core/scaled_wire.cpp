// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/scaled_wire.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::uint32_t sign_bit = 0x80000000U;
constexpr std::uint32_t infinite = 0x7F800000U;  ///< Bits of the smallest magnitude that is not finite

std::uint32_t bits_of(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
float float_of(std::uint32_t bits) {
  return std::bit_cast<float>(bits);
}

/// Within (−½, ½): what is added before rounding to the nearest. Exact in sums below 128.
float dither(std::uint32_t draw) {
  return static_cast<float>(static_cast<std::int32_t>(draw >> 16)) * 0x1p-16F + (0x1p-17F - 0.5F);
}

// Formats: code() of a value in units of the block's step, and value() of a code. A draw decides between the
// two neighbours in proportion to their distances; without `stochastic` it is not looked at.

struct Int8 {
  static constexpr std::size_t bits = 8;
  static constexpr float largest = 127.0F;

  template <bool stochastic>
  static std::uint32_t code(float value, std::uint32_t draw) {
    if constexpr (stochastic) value += dither(draw);
    value = std::min(std::max(value, -largest), largest);
    return bits_of(value + 0x1.8p23F) & 0xFFU;  // the fraction's last bits are the integer
  }
  static float value(std::uint32_t code) {
    return static_cast<float>(static_cast<std::int32_t>(code << 24U) >> 24);
  }
};

struct Fp8 {
  static constexpr std::size_t bits = 8;
  static constexpr float largest = 448.0F;

  template <bool stochastic>
  static std::uint32_t code(float value, std::uint32_t draw) {
    constexpr std::uint32_t rebias = 120U << 3U;  // float's exponents begin 120 below
    const std::uint32_t magnitude = bits_of(value) & ~sign_bit;
    std::uint32_t below = magnitude;
    float small = float_of(magnitude);
    if constexpr (stochastic) {
      below += draw >> 12U;
      small += dither(draw) * 0x1p-9F;
    } else {
      below += 0x7FFFFU + ((magnitude >> 20U) & 1U);
    }
    const std::uint32_t normal = std::min((below >> 20U) - rebias, 0x7EU);
    const std::uint32_t subnormal = bits_of(small + 0x1.8p14F) & 0xFU;  // the last bit is 2⁻⁹
    const std::uint32_t code = magnitude < bits_of(0x1p-6F) ? subnormal : normal;
    return code | bits_of(value) >> 31U << 7U;
  }
  static float value(std::uint32_t code) {
    const std::uint32_t magnitude = code & 0x7FU;
    const float subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-9F;
    const std::uint32_t size = magnitude < 8 ? bits_of(subnormal) : (magnitude << 20U) + (120U << 23U);
    return float_of(size | code >> 7U << 31U);
  }
};

struct Fp4 {
  static constexpr std::size_t bits = 4;
  static constexpr float largest = 16.0F;

  template <bool stochastic>
  static std::uint32_t code(float value, std::uint32_t draw) {
    const std::uint32_t magnitude = bits_of(value) & ~sign_bit;
    const std::uint32_t share = stochastic ? draw >> 9U : 0x400000U;
    const std::uint32_t normal = std::min(((magnitude + share) >> 23U) - 124U, 7U);
    const float least = stochastic ? static_cast<float>(static_cast<std::int32_t>(draw >> 8U)) * 0x1p-26F
                                   : float_of(bits_of(0.125F) - 1U);
    const std::uint32_t subnormal = float_of(magnitude) > least ? 1U : 0U;
    const std::uint32_t code = magnitude < bits_of(0.25F) ? subnormal : normal;
    return code | bits_of(value) >> 31U << 3U;
  }
  static float value(std::uint32_t code) {
    const std::uint32_t magnitude = code & 7U;
    const std::uint32_t size = magnitude == 0 ? 0 : (magnitude + 124U) << 23U;
    return float_of(size | code >> 3U << 31U);
  }
};

/// value · 2¹⁰⁰ where that is below 1, without denormal floats, which threads may flush to zero.
float lifted(float value) {
  const std::uint32_t magnitude = bits_of(value) & ~sign_bit;
  const float denormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-49F;
  const std::uint32_t bits = magnitude < 0x800000U ? bits_of(denormal) : magnitude + (100U << 23U);
  return float_of(bits | (bits_of(value) & sign_bit));
}

/// The draws of a block: a well-mixed word for each element (Wellons, "Prospecting for hash functions",
/// 2018).
struct BlockDraws {
  RoundingDraws::Key key{};
  std::uint32_t first = 0;  ///< Element

  std::uint32_t operator()(std::uint32_t i) const {
    std::uint32_t word = (first + i) ^ key[0];
    word = (word ^ word >> 16U) * 0x7FEB352DU;
    word = (word ^ word >> 15U) * 0x846CA68BU;
    return word ^ word >> 16U ^ key[1];
  }
};

// Loops over a block are over all of scale_block, whose length the compiler knows; a shorter block is filled
// up with zeros.

struct alignas(64) Block {
  std::array<float, scale_block> values;

  float& operator[](std::size_t i) { return values[i]; }
  float operator[](std::size_t i) const { return values[i]; }
};

struct alignas(64) Codes {
  std::array<std::uint8_t, scale_block> values;

  std::uint8_t& operator[](std::size_t i) { return values[i]; }
  std::uint8_t operator[](std::size_t i) const { return values[i]; }
};

/// Two codes in a byte: those of the first half of the block are the lower ones.
void pack_nibbles(const Codes& codes, std::size_t count, std::byte* to) {
  const std::size_t half = (count + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) to[i] = static_cast<std::byte>(codes[i] | codes[half + i] << 4U);
}

void unpack_nibbles(const std::byte* from, std::size_t count, Codes& codes) {
  const std::size_t half = (count + 1) / 2;
  for (std::size_t i = 0; i < half; ++i) {
    codes[i] = static_cast<std::uint8_t>(from[i]) & 0xFU;
    codes[half + i] = static_cast<std::uint8_t>(static_cast<std::uint8_t>(from[i]) >> 4U);
  }
}

std::uint32_t largest_magnitude(const Block& block) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < scale_block; ++i) largest = std::max(largest, bits_of(block[i]) & ~sign_bit);
  return largest;
}

/// The step of a block, as it is sent.
struct Step {
  float sent = 0.0F;

  // NaN · 0 is NaN.
  float unit() const { return std::abs(sent); }
  float lowered() const { return std::signbit(sent) ? 0x1p-100F : 1.0F; }
};

/// The code of block[i] · inverse, and what it is decoded to.
template <class Format, bool stochastic>
void make_codes(const Block& block, float inverse, const BlockDraws& draws, Step step, Codes& codes,
                Block& decoded) {
  const float unit = step.unit();
  const float lowered = step.lowered();
  for (std::size_t i = 0; i < scale_block; ++i) {
    const std::uint32_t draw = stochastic ? draws(static_cast<std::uint32_t>(i)) : 0;
    const std::uint32_t code = Format::template code<stochastic>(block[i] * inverse, draw);
    codes[i] = static_cast<std::uint8_t>(code);
    decoded[i] = Format::value(code) * unit * lowered;
  }
}

/// Encodes the first `count` values of a block, whose others are 0. @returns whether they are finite
template <class Format>
bool encode_block(const Block& block, std::size_t count, const RoundingDraws& draws, std::uint64_t element,
                  std::byte* to, Block& decoded) {
  Codes codes;
  const std::uint32_t largest = largest_magnitude(block);
  const bool is_finite = largest < infinite;
  Step step{is_finite ? 0.0F : std::numeric_limits<float>::quiet_NaN()};
  if (largest == 0 || !is_finite) {
    codes.values.fill(0);
    decoded.values.fill(step.sent);
  } else {
    const bool tiny = largest < bits_of(0x1p-100F);
    Block raised;
    if (tiny)
      for (std::size_t i = 0; i < scale_block; ++i) raised[i] = lifted(block[i]);
    const Block& from = tiny ? raised : block;
    const float most = tiny ? lifted(float_of(largest)) : float_of(largest);
    step.sent = most / Format::largest;
    if (most >= 0x1p127F) step.sent = float_of(bits_of(step.sent) - 1);  // step · largest must not overflow
    if (tiny) step.sent = -step.sent;
    const float inverse = Format::largest / most;
    if (draws.key()) {
      make_codes<Format, true>(from, inverse, {*draws.key(), static_cast<std::uint32_t>(element)}, step,
                               codes, decoded);
    } else {
      make_codes<Format, false>(from, inverse, {}, step, codes, decoded);
    }
  }
  std::memcpy(to, &step.sent, sizeof(step.sent));
  if constexpr (Format::bits == 4) {
    pack_nibbles(codes, count, to + sizeof(step));
  } else {
    std::memcpy(to + sizeof(step), codes.values.data(), count);
  }
  return is_finite;
}

template <class Format>
void decode_block(const std::byte* from, std::size_t count, Block& block) {
  Step step;
  std::memcpy(&step.sent, from, sizeof(step.sent));
  Codes codes;
  if (count < scale_block) codes.values.fill(0);
  if constexpr (Format::bits == 4) {
    unpack_nibbles(from + sizeof(step), count, codes);
  } else {
    std::memcpy(codes.values.data(), from + sizeof(step), count);
  }
  const float unit = step.unit();
  const float lowered = step.lowered();
  for (std::size_t i = 0; i < scale_block; ++i) block[i] = Format::value(codes[i]) * unit * lowered;
}

template <class F>
void with_format(Wire wire, F&& f) {
  switch (wire) {
    case Wire::int8: return f(Int8());
    case Wire::fp8: return f(Fp8());
    case Wire::fp4: return f(Fp4());
    default: require(false, name(wire), " has no scales");
  }
}

/// f(offset, count, bytes) for the blocks of a message.
template <class Bytes, class F>
void for_each_block(Wire wire, std::size_t total, Bytes* bytes, F&& f) {
  const std::size_t whole = encoded_bytes(wire, scale_block);
  for (std::size_t at = 0; at < total; at += scale_block, bytes += whole)
    f(at, std::min(scale_block, total - at), bytes);
}

}  // namespace

RoundingDraws::RoundingDraws(std::uint64_t seed, std::uint64_t step, std::uint32_t stream) {
  const std::array<std::uint32_t, 4> words =
      philox({static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32U), stream, random_wire},
             {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32U)});
  key_ = {words[0], words[1]};
}

void encode_scaled(Wire wire, const RoundedValues& rounded, const RoundingDraws& draws, std::byte* to) {
  with_format(wire, [&]<class Format>(Format) {
    for_each_block(wire, rounded.values.size(), to, [&](std::size_t at, std::size_t count, std::byte* bytes) {
      const float* __restrict const values = rounded.values.data() + at;
      float* __restrict const errors = rounded.errors.data() + at;
      Block sum;
      Block sent;
      sum.values.fill(0.0F);
      for (std::size_t i = 0; i < count; ++i) sum[i] = values[i] + errors[i];
      if (!encode_block<Format>(sum, count, draws, rounded.element + at, bytes, sent)) return;
      for (std::size_t i = 0; i < count; ++i) errors[i] = sum[i] - sent[i];
    });
  });
}

void encode_scaled_sum(Wire wire, const RoundedValues& rounded, const RoundingDraws& draws, std::byte* to) {
  with_format(wire, [&]<class Format>(Format) {
    for_each_block(wire, rounded.values.size(), to, [&](std::size_t at, std::size_t count, std::byte* bytes) {
      float* __restrict const values = rounded.values.data() + at;
      float* __restrict const errors = rounded.errors.data() + at;
      Block sum;
      Block sent;
      sum.values.fill(0.0F);
      std::copy_n(values, count, sum.values.begin());
      const bool is_finite = encode_block<Format>(sum, count, draws, rounded.element + at, bytes, sent);
      std::copy_n(sent.values.begin(), count, values);
      if (!is_finite) return;
      for (std::size_t i = 0; i < count; ++i) errors[i] += sum[i] - sent[i];
    });
  });
}

void decode_scaled(Wire wire, const std::byte* from, std::span<float> values) {
  with_format(wire, [&]<class Format>(Format) {
    for_each_block(wire, values.size(), from, [&](std::size_t at, std::size_t count, const std::byte* bytes) {
      Block block;
      decode_block<Format>(bytes, count, block);
      std::copy_n(block.values.begin(), count, values.data() + at);
    });
  });
}

void decode_and_add_scaled(Wire wire, const std::byte* from, std::span<float> values) {
  with_format(wire, [&]<class Format>(Format) {
    for_each_block(wire, values.size(), from, [&](std::size_t at, std::size_t count, const std::byte* bytes) {
      Block block;
      decode_block<Format>(bytes, count, block);
      float* const to = values.data() + at;
      for (std::size_t i = 0; i < count; ++i) to[i] += block[i];
    });
  });
}

}  // namespace flotilla::mpi
