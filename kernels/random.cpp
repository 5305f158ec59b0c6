// SPDX-License-Identifier: Apache-2.0
#include "kernels/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

using Block = std::array<std::uint32_t, 4>;
using Key = std::array<std::uint32_t, 2>;

std::uint32_t low(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits);
}
std::uint32_t high(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits >> 32);
}

/// A bijective mixing of 32 bits (the finalizer of MurmurHash3).
std::uint32_t mixed(std::uint32_t bits) {
  bits = (bits ^ (bits >> 16)) * 0x85EBCA6BU;
  bits = (bits ^ (bits >> 13)) * 0xC2B2AE35U;
  return bits ^ (bits >> 16);
}

/// 24 bits: 32 rounded to float could be 1.
float unit_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24F;
}

/// Counters side by side, which the compiler vectorises.
template <std::size_t width>
using Lanes = std::array<std::uint32_t, width>;

/// The rounds of philox() on all lanes.
template <std::size_t width>
inline void mix_lanes(Lanes<width>& a, Lanes<width>& b, Lanes<width>& c, Lanes<width>& d, Key key) {
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < width; ++lane) {
      const std::uint64_t first = philox_factor_0 * a[lane];
      const std::uint64_t second = philox_factor_2 * c[lane];
      a[lane] = high(second) ^ b[lane] ^ key[0];
      b[lane] = low(second);
      c[lane] = high(first) ^ d[lane] ^ key[1];
      d[lane] = low(first);
    }
    key[0] += philox_weyl[0];
    key[1] += philox_weyl[1];
  }
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint32_t purpose, std::uint64_t index)
    : key_{low(seed), high(seed)}, counter_{0, purpose, low(index), high(index)} {}

std::uint32_t Random::bits() {
  if (used_ == 4) {
    block_ = philox(counter_, key_);
    ++counter_[0];
    require(counter_[0] != 0, "a random stream has 2^34 values; this one is used up");
    used_ = 0;
  }
  return block_[static_cast<std::size_t>(used_++)];
}

std::uint64_t Random::below(std::uint64_t bound) {
  require(bound > 0, "Random::below needs a positive bound");
  // The values from `threshold` on are a whole number of times `bound` many: those below are drawn again.
  const std::uint64_t threshold = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t upper = bits();
    const std::uint64_t value = (upper << 32) | bits();
    if (value >= threshold) return value % bound;
  }
}

double Random::uniform() {
  const std::uint64_t upper = bits();
  const std::uint64_t value = (upper << 32) | bits();
  return static_cast<double>(value >> 11) * 0x1.0p-53;
}

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

void Random::fill(std::span<float> to) {
  std::size_t done = 0;
  while (done < to.size() && used_ < 4) to[done++] = unit_float(bits());
  constexpr std::size_t width = 32;
  for (; done + 4 * width <= to.size(); done += 4 * width) {
    require(counter_[0] <= 0xFFFFFFFFU - width, "a random stream has 2^34 values; this one is used up");
    Lanes<width> a, b, c, d;  // not zeroed: written before they are read
    for (std::size_t lane = 0; lane < width; ++lane) {
      a[lane] = counter_[0] + static_cast<std::uint32_t>(lane);
      b[lane] = counter_[1];
      c[lane] = counter_[2];
      d[lane] = counter_[3];
    }
    mix_lanes(a, b, c, d, key_);
    float* out = to.data() + done;
    for (std::size_t lane = 0; lane < width; ++lane) {
      out[4 * lane] = unit_float(a[lane]);
      out[4 * lane + 1] = unit_float(b[lane]);
      out[4 * lane + 2] = unit_float(c[lane]);
      out[4 * lane + 3] = unit_float(d[lane]);
    }
    counter_[0] += width;
  }
  while (done < to.size()) to[done++] = unit_float(bits());
}

void fill_streams(std::uint64_t seed, std::uint32_t purpose, std::span<const std::uint64_t> indices,
                  std::span<float* const> to, std::size_t count) {
  require(indices.size() == to.size(), indices.size(), " streams for ", to.size(), " places");
  constexpr std::size_t width = 16;
  const Key key = {low(seed), high(seed)};
  const std::size_t blocks = (count + 3) / 4;
  // The next block to be computed, and the next to be written.
  std::size_t stream = 0;
  std::size_t block = 0;
  std::size_t written = 0;
  std::size_t written_block = 0;
  while (written < to.size() && blocks > 0) {
    Lanes<width> a, b, c, d;
    for (std::size_t lane = 0; lane < width; ++lane) {
      const std::uint64_t index = indices[std::min(stream, indices.size() - 1)];
      a[lane] = static_cast<std::uint32_t>(block);
      b[lane] = purpose;
      c[lane] = low(index);
      d[lane] = high(index);
      if (++block == blocks) {
        block = 0;
        ++stream;
      }
    }
    mix_lanes(a, b, c, d, key);
    std::array<std::array<float, width>, 4> values;
    for (std::size_t lane = 0; lane < width; ++lane) {
      values[0][lane] = unit_float(a[lane]);
      values[1][lane] = unit_float(b[lane]);
      values[2][lane] = unit_float(c[lane]);
      values[3][lane] = unit_float(d[lane]);
    }
    for (std::size_t lane = 0; lane < width && written < to.size(); ++lane) {
      float* const out = to[written] + 4 * written_block;
      const std::size_t some = std::min<std::size_t>(4, count - 4 * written_block);
      for (std::size_t i = 0; i < some; ++i) out[i] = values[i][lane];
      if (++written_block == blocks) {
        written_block = 0;
        ++written;
      }
    }
  }
}

Permutation::Permutation(std::uint64_t seed, std::uint32_t purpose, std::uint64_t index, std::uint64_t size)
    : size_(size) {
  // Keys of a stream that Random(seed, purpose, index) does not touch: its counter would have to wrap.
  const Key key = {low(seed), high(seed)};
  const Block first = philox({0xFFFFFFFFU, purpose, low(index), high(index)}, key);
  const Block second = philox({0xFFFFFFFEU, purpose, low(index), high(index)}, key);
  for (std::size_t i = 0; i < 4; ++i) {
    round_keys_[i] = first[i];
    round_keys_[i + 4] = second[i];
  }
  // The smallest even number of bits that holds 0 … size − 1: fewer than four walks on average.
  const int bits = size > 1 ? static_cast<int>(std::bit_width(size - 1)) : 1;
  half_bits_ = (bits + 1) / 2;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const {
  require(position < size_, "position ", position, " is outside a permutation of ", size_);
  const std::uint32_t mask = half_bits_ == 32 ? 0xFFFFFFFFU : (1U << half_bits_) - 1U;
  do {
    auto left = static_cast<std::uint32_t>(position >> half_bits_);
    auto right = static_cast<std::uint32_t>(position) & mask;
    for (const std::uint32_t key : round_keys_) {
      const std::uint32_t next = left ^ (mixed(right ^ key) & mask);
      left = right;
      right = next;
    }
    position = (std::uint64_t{left} << half_bits_) | right;
  } while (position >= size_);
  return position;
}

}  // namespace flotilla
