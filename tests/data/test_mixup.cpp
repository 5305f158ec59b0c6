// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/loader.hpp"
#include "src/data/mixup.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/within.hpp"

namespace flotilla {
namespace {

/// Sample i is 70,000 times the value i, large enough for threads to share a batch; its label is i mod 7.
class ConstantSamples final : public Dataset {
 public:
  ConstantSamples() { set_facts({.size = 64, .shape = {70000}, .description = "constant"}); }
  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    std::fill(to.begin(), to.end(), static_cast<float>(i));
    return static_cast<std::int32_t>(i % 7);
  }
};

LoaderOptions mixing(std::int64_t threads) {
  return {.threads = threads, .prefetch = 2, .sink = {}, .mixup = 0.2};
}

TEST(Mixup, MixesNeighboursAndKeepsBothLabels) {
  const ConstantSamples data;
  const Sampler sampler(3, {.samples = 64, .workers = 2, .batch = 4, .micro_steps = 2});
  for (const std::int64_t threads : {0, 1, 2, 4}) {
    const auto loader = make_training_loader(data, sampler, 1, {}, mixing(threads));
    Position position;
    std::vector<float> shares;
    for (int step = 0; step < 8; ++step, position = sampler.after(position)) {
      for (std::int64_t micro = 0; micro < 2; ++micro) {
        std::vector<std::int64_t> drawn(4);
        sampler.indices(position, 1, micro, drawn);

        const Batch& batch = loader->next();

        const float share = batch.partner_share;
        ASSERT_EQ(batch.partner_labels.size(), 4U);
        for (std::size_t row = 0; row < 4; ++row) {
          const std::int64_t own = drawn[row];
          const std::int64_t other = drawn[row ^ 1U];
          const float expected = (1.0F - share) * static_cast<float>(own) + share * static_cast<float>(other);
          ASSERT_EQ(batch.labels[row], own % 7);
          ASSERT_EQ(batch.partner_labels[row], other % 7);
          ASSERT_EQ(batch.images[row * 70000], expected) << threads << " threads";
          ASSERT_EQ(batch.images[row * 70000 + 69999], expected);
        }
        shares.push_back(share);
      }
      EXPECT_EQ(shares[shares.size() - 2], shares.back()) << "one λ for a step";
    }
    EXPECT_NE(shares[0], shares[2]) << "another one for the next step";
  }
}

TEST(Mixup, HasTheSameShareOnAllWorkersAndForAnyNumberOfThem) {
  const ConstantSamples data;
  const Sampler alone(3, {.samples = 64, .workers = 1, .batch = 8});
  const Sampler shared(3, {.samples = 64, .workers = 2, .batch = 4});
  const auto one = make_training_loader(data, alone, 0, {}, mixing(1));
  const auto first = make_training_loader(data, shared, 0, {}, mixing(2));
  const auto second = make_training_loader(data, shared, 1, {}, mixing(3));
  for (int step = 0; step < 20; ++step) {
    const Batch& whole = one->next();
    const Batch& upper = first->next();
    const Batch& lower = second->next();

    ASSERT_EQ(upper.partner_share, whole.partner_share);
    ASSERT_EQ(lower.partner_share, whole.partner_share);
    for (std::size_t row = 0; row < 4; ++row) {
      ASSERT_EQ(upper.images[row * 70000], whole.images[row * 70000]);
      ASSERT_EQ(lower.images[row * 70000], whole.images[(row + 4) * 70000]);
      ASSERT_EQ(lower.partner_labels[row], whole.partner_labels[row + 4]);
    }
  }
}

TEST(Mixup, IsOffByDefaultAndInValidation) {
  const ConstantSamples data;
  const Sampler sampler(3, {.samples = 64, .workers = 1, .batch = 4});

  const auto plain = make_training_loader(data, sampler, 0, {}, {});
  const auto validation = make_validation_loader(data, {0, 64}, 4, mixing(1));

  EXPECT_TRUE(plain->next().partner_labels.empty());
  EXPECT_EQ(plain->next().partner_share, 0.0F);
  EXPECT_TRUE(validation->next().partner_labels.empty());
  EXPECT_EQ(validation->next().images[0], 4.0F);
}

/// Mean and variance of Beta(α, α): 1/2 and 1 / (4 (2 α + 1)); tolerances of 5 standard errors (the
/// variance's is below 0.25 / √n).
TEST(Mixup, SharesHaveTheBetaDistribution) {
  constexpr int n = 20000;
  for (const double alpha : {0.001, 0.2, 1.0, 8.0}) {
    Random random(1, random_mixup, 0);
    double sum = 0.0;
    double squares = 0.0;
    for (int i = 0; i < n; ++i) {
      const double share = symmetric_beta(alpha, random);
      ASSERT_GE(share, 0.0);
      ASSERT_LE(share, 1.0);
      sum += share;
      squares += (share - 0.5) * (share - 0.5);
    }
    const double variance = 1.0 / (4.0 * (2.0 * alpha + 1.0));
    EXPECT_TRUE(test::within(sum / n, 0.5, 5.0 * std::sqrt(variance / n))) << alpha;
    EXPECT_TRUE(test::within(squares / n, variance, 5.0 * 0.25 / std::sqrt(n))) << alpha;
  }
}

/// Sample i is an image (2, 6, 8) of the values i.
class ConstantImages final : public Dataset {
 public:
  ConstantImages() { set_facts({.size = 64, .shape = {2, 6, 8}, .description = "constant images"}); }
  std::int32_t read(std::int64_t i, std::uint64_t /*variation*/, std::span<float> to) const override {
    std::ranges::fill(to, static_cast<float>(i));
    return static_cast<std::int32_t>(i % 7);
  }
};

TEST(CutMix, ExchangesOneRectangleInAllPairsOfAStepOnAnyNumberOfWorkers) {
  const ConstantImages data;
  const Sampler alone(3, {.samples = 64, .workers = 1, .batch = 8});
  const Sampler shared(3, {.samples = 64, .workers = 2, .batch = 4});
  const LoaderOptions cutting{.threads = 2, .prefetch = 2, .sink = {}, .cutmix = 1.0};
  const auto one = make_training_loader(data, alone, 0, {}, cutting);
  const auto first = make_training_loader(data, shared, 0, {}, cutting);
  const auto second = make_training_loader(data, shared, 1, {}, cutting);
  const auto resumed = make_training_loader(data, alone, 0, alone.after({}, 10), cutting);
  for (int step = 0; step < 20; ++step) {
    const Batch& whole = one->next();
    std::vector<float> halves;
    for (Loader* half : {first.get(), second.get()}) {
      const Batch& part = half->next();
      halves.insert(halves.end(), part.images.begin(), part.images.end());
      ASSERT_EQ(part.partner_share, whole.partner_share);
    }
    const std::vector<float> all(whole.images.begin(), whole.images.end());
    ASSERT_EQ(halves, all);
    if (step >= 10) {
      ASSERT_TRUE(std::ranges::equal(resumed->next().images, all));
    }

    std::vector<std::int64_t> drawn(8);
    alone.indices(alone.after({}, step), 0, 0, drawn);
    std::vector<bool> cut;  // of the first image; the same pixels in all others and in both channels
    for (std::size_t row = 0; row < 8; ++row) {
      ASSERT_EQ(whole.labels[row], drawn[row] % 7);
      ASSERT_EQ(whole.partner_labels[row], drawn[row ^ 1U] % 7);
      for (std::size_t k = 0; k < 96; ++k) {
        const float value = all[row * 96 + k];
        const bool exchanged = value == static_cast<float>(drawn[row ^ 1U]);
        ASSERT_TRUE(exchanged || value == static_cast<float>(drawn[row]));
        if (row == 0 && k < 48) cut.push_back(exchanged);
        ASSERT_EQ(exchanged, cut[k % 48]);
      }
    }
    EXPECT_EQ(static_cast<float>(std::ranges::count(cut, true)) / 48.0F, whole.partner_share);
  }
}

/// The rectangle of torchvision's CutMix, for its draws of λ and of the middle.
TEST(CutMix, CutsTheRectangleOfTorchvision) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed, random_mixup, 0);
    const PairMix mix = draw_mix(random, {.cutmix = 1.0}, {3, 32, 48});
    Random again(seed, random_mixup, 0);
    const double lambda = 1.0 - symmetric_beta(1.0, again);
    const auto r_x = static_cast<int>(again.below(48));
    const auto r_y = static_cast<int>(again.below(32));
    const double r = 0.5 * std::sqrt(1.0 - lambda);
    const int x1 = std::max(r_x - static_cast<int>(r * 48), 0);
    const int y1 = std::max(r_y - static_cast<int>(r * 32), 0);
    const int x2 = std::min(r_x + static_cast<int>(r * 48), 48);
    const int y2 = std::min(r_y + static_cast<int>(r * 32), 32);

    ASSERT_TRUE(mix.cut);
    EXPECT_EQ(mix.rectangle.x, x1);
    EXPECT_EQ(mix.rectangle.y, y1);
    EXPECT_EQ(mix.rectangle.width, x2 - x1);
    EXPECT_EQ(mix.rectangle.height, y2 - y1);
    EXPECT_TRUE(test::within_float_roundings(mix.share,
                                             static_cast<float>((x2 - x1) * (y2 - y1)) / (32.0F * 48.0F), 4));
  }
}

TEST(CutMix, TakesTurnsWithMixupAtRandom) {
  constexpr int n = 4000;
  int cuts = 0;
  for (std::uint64_t seed = 0; seed < n; ++seed) {
    Random random(seed, random_mixup, 0);
    cuts += draw_mix(random, {.mixup = 0.2, .cutmix = 1.0}, {1, 28, 28}).cut ? 1 : 0;
  }
  EXPECT_TRUE(test::within(cuts, n / 2, 5 * std::sqrt(n) / 2));
}

std::string refusal(const Sharding& sharding, std::int64_t global) {
  return test::error_of([&] { check_pairs(sharding, global, "train.mixup"); });
}

TEST(Mixup, NeedsPairsAndSaysWhichNumbersGiveThem) {
  EXPECT_EQ(refusal({.samples = 99, .workers = 3, .batch = 8}, 0), "");
  EXPECT_EQ(refusal({.samples = 99, .workers = 3, .batch = 5}, 0),
            "train.mixup mixes pairs, but a worker's batch is 5; use train.batch_size = 4 or 6");
  EXPECT_EQ(refusal({.samples = 99, .workers = 1, .batch = 1}, 0),
            "train.mixup mixes pairs, but a worker's batch is 1; use train.batch_size = 2");
  EXPECT_EQ(refusal({.samples = 99, .workers = 4, .batch = 3}, 12),
            "train.mixup mixes pairs, but a worker's batch is 3; use train.global_batch_size = 8 or 16, or "
            "one of these worker counts: 1, 2, 3, 6");
}

TEST(CutMix, RefusesSamplesThatAreNoImages) {
  EXPECT_NO_THROW(check_images(1.0, {1, 8, 8}));
  EXPECT_NO_THROW(check_images(0.0, {8}));
  EXPECT_THROW(check_images(1.0, {8}), UserError);
  EXPECT_THROW(check_images(1.0, {8, 8}), UserError);
}

}  // namespace
}  // namespace flotilla
