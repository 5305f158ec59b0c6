// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/random.hpp"
#include "kernels/tensor.hpp"
#include "src/data/images/picture.hpp"
#include "src/data/sharding.hpp"

namespace flotilla {

/// A value of the distribution Beta(alpha, alpha), alpha > 0: computed as the share of one of two
/// Gamma(alpha) values, by their logarithms, since for a small alpha the values underflow.
double symmetric_beta(double alpha, Random& random);

/// Mixup (Zhang et al. 2018) of two samples with each other: a ← (1 − share) a + share b, b ← (1 − share) b +
/// share a.
void mix(std::span<float> a, std::span<float> b, float share);

/// The mixing of a step's pairs.
struct PairMix {
  float share = 0.0F;  ///< Share of the partner in the label
  bool cut = false;    ///< True: CutMix, the rectangle is exchanged; false: mixup with `share`
  Box rectangle{};
};

/// Parameters of the distributions Beta(x, x) of λ; 0: off.
struct MixSpec {
  double mixup = 0.0;
  double cutmix = 0.0;  ///< Only for samples (C,H,W)

  bool mixes() const { return mixup > 0.0 || cutmix > 0.0; }
};

/// Draws mixup or, for images (channels, height, width), CutMix (Yun et al. 2019, section 3.1): a rectangle
/// of √(1 − λ) times the image's sides around a random pixel, cut off at the image's borders, as
/// torchvision's CutMix does. With both, each at a half of the steps. @param sample shape of one
PairMix draw_mix(Random& random, const MixSpec& spec, const Shape& sample);

/// Exchanges a rectangle of two images (C,H,W).
void exchange(std::span<float> a, std::span<float> b, const Shape& image, const Box& rectangle);

/// Checks that samples are images (C,H,W) where the deck's train.cutmix needs them. @throws UserError
void check_images(double cutmix, const Shape& sample);

/// Checks that a worker's batch consists of pairs. @param global_batch_size of the deck; 0: it gives
/// train.batch_size. @param key of the deck that wants pairs
/// @throws UserError naming valid sizes.
void check_pairs(const Sharding& sharding, std::int64_t global_batch_size, std::string_view key);

}  // namespace flotilla
