// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace flotilla {

// Multipliers and Weyl constants of Philox.
inline constexpr std::uint64_t philox_factor_0 = 0xD2511F53;
inline constexpr std::uint64_t philox_factor_2 = 0xCD9E8D57;
inline constexpr std::array<std::uint32_t, 2> philox_weyl = {0x9E3779B9U, 0xBB67AE85U};

/// Ten rounds of Philox 4x32 (Salmon et al., SC 2011, section 4.3): four random words of a counter and a key.
/// constexpr, so that code for devices can call it.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = philox_factor_0 * counter[0];
    const std::uint64_t b = philox_factor_2 * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += philox_weyl[0];
    key[1] += philox_weyl[1];
  }
  return counter;
}

/// Counter-based random numbers: Philox 4x32-10 (Salmon et al., SC 2011). A value is a pure function of (key,
/// counter), so that nothing depends on the order, thread or rank of the draws.
class Random {
 public:
  /// Two streams with different (seed, purpose, index) are independent.
  Random(std::uint64_t seed, std::uint32_t purpose, std::uint64_t index = 0);

  std::uint32_t bits();                      ///< 32 random bits.
  std::uint64_t below(std::uint64_t bound);  ///< Uniform in 0 … bound − 1, without bias. bound > 0.
  double uniform();                          ///< Uniform in [0, 1), 53 bits.
  double normal();                           ///< Mean 0, variance 1 (Box–Muller).
  /// Uniform in [0, 1), 24 bits each: what bits() >> 8 would give one by one, at several times the speed.
  void fill(std::span<float> to);

 private:
  std::array<std::uint32_t, 2> key_{};
  std::array<std::uint32_t, 4> counter_{};
  std::array<std::uint32_t, 4> block_{};
  int used_ = 4;
};

/// random.below() of a signed bound: uniform in 0 … bound − 1. bound > 0.
inline std::int64_t below(Random& random, std::int64_t bound) {
  return static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(bound)));
}

/// Purposes of random streams, so that streams of one seed are independent.
enum RandomPurpose : std::uint32_t {
  random_weights = 1,
  random_order = 2,
  random_augmentation = 3,
  random_data = 4,
  random_dropout = 5,
  random_replacement = 6,
  random_mixup = 7,
  random_rows = 8,
  random_classes = 9,
  random_wire = 10,
};

/// to[i] ← the first `count` values of Random(seed, purpose, indices[i]).fill(): short streams, many at a
/// time.
void fill_streams(std::uint64_t seed, std::uint32_t purpose, std::span<const std::uint64_t> indices,
                  std::span<float* const> to, std::size_t count);

/// A pseudo-random permutation of 0 … size − 1 in constant memory (a Feistel network walked until it lands
/// inside).
class Permutation {
 public:
  Permutation(std::uint64_t seed, std::uint32_t purpose, std::uint64_t index, std::uint64_t size);
  std::uint64_t operator()(std::uint64_t position) const;  ///< position < size

 private:
  std::array<std::uint32_t, 8> round_keys_{};
  std::uint64_t size_ = 0;
  int half_bits_ = 1;
};

}  // namespace flotilla
