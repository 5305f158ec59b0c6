// SPDX-License-Identifier: Apache-2.0
#include "src/data/mixup.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// ln of a Gamma(alpha) value: Marsaglia and Tsang (2000) for alpha + 1, times U^(1 / alpha).
double log_gamma_value(double alpha, Random& random) {
  const double d = alpha + 1.0 - 1.0 / 3.0;
  const double c = 1.0 / std::sqrt(9.0 * d);
  for (;;) {
    const double x = random.normal();
    const double root = 1.0 + c * x;
    const double u = 1.0 - random.uniform();  // not 0
    if (root <= 0.0) continue;
    const double v = root * root * root;
    if (std::log(u) < 0.5 * x * x + d * (1.0 - v + std::log(v)))
      return std::log(d * v) + std::log(1.0 - random.uniform()) / alpha;
  }
}

}  // namespace

double symmetric_beta(double alpha, Random& random) {
  require(alpha > 0.0, "a beta distribution needs a positive parameter, got ", alpha);
  const double first = log_gamma_value(alpha, random);
  const double second = log_gamma_value(alpha, random);
  return 1.0 / (1.0 + std::exp(second - first));
}

void mix(std::span<float> a, std::span<float> b, float share) {
  require(a.size() == b.size(), "samples of ", a.size(), " and ", b.size(), " values cannot be mixed");
  const float own = 1.0F - share;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const float x = a[i];
    const float y = b[i];
    a[i] = own * x + share * y;
    b[i] = own * y + share * x;
  }
}

PairMix draw_mix(Random& random, const MixSpec& spec, const Shape& sample) {
  const bool cut = spec.cutmix > 0.0 && (spec.mixup == 0.0 || random.uniform() < 0.5);
  const double partners = symmetric_beta(cut ? spec.cutmix : spec.mixup, random);  // 1 − λ
  if (!cut) return {.share = static_cast<float>(partners)};
  require(sample.rank() == 3, "CutMix needs images, got samples ", sample.text());
  const auto part = [&](std::int64_t length, std::int64_t& begin, std::int64_t& count) {
    const auto middle = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(length)));
    const auto half = static_cast<std::int64_t>(0.5 * std::sqrt(partners) * static_cast<double>(length));
    begin = std::max<std::int64_t>(middle - half, 0);
    count = std::min(middle + half, length) - begin;
  };
  PairMix mix{.cut = true};
  part(sample[2], mix.rectangle.x, mix.rectangle.width);
  part(sample[1], mix.rectangle.y, mix.rectangle.height);
  mix.share = static_cast<float>(static_cast<double>(mix.rectangle.height * mix.rectangle.width) /
                                 static_cast<double>(sample[1] * sample[2]));
  return mix;
}

void exchange(std::span<float> a, std::span<float> b, const Shape& image, const Box& rectangle) {
  require(a.size() == b.size() && std::ssize(a) == image.size(), "an image ", image.text(), " has not ",
          a.size(), " values");
  const auto width = static_cast<std::size_t>(rectangle.width);
  for (std::int64_t channel = 0; channel < image[0]; ++channel) {
    for (std::int64_t y = rectangle.y; y < rectangle.y + rectangle.height; ++y) {
      const auto begin = static_cast<std::size_t>((channel * image[1] + y) * image[2] + rectangle.x);
      std::ranges::swap_ranges(a.subspan(begin, width), b.subspan(begin, width));
    }
  }
}

void check_images(double cutmix, const Shape& sample) {
  if (cutmix == 0.0 || sample.rank() == 3) return;
  throw UserError(cat("train.cutmix exchanges parts of images, but a sample is ", sample.text(),
                      " instead of channels, height and width: leave it out, or use train.mixup"));
}

void check_pairs(const Sharding& sharding, std::int64_t global_batch_size, std::string_view key) {
  if (sharding.batch % 2 == 0) return;
  std::string remedy = cat("train.batch_size = ", sharding.batch + 1);
  if (sharding.batch > 1) remedy = cat("train.batch_size = ", sharding.batch - 1, " or ", sharding.batch + 1);
  if (global_batch_size > 0) {
    const std::int64_t pairs = 2 * sharding.workers * sharding.micro_steps;
    const std::int64_t below = global_batch_size / pairs * pairs;
    remedy = cat("train.global_batch_size = ", below > 0 ? cat(below, " or ") : "", below + pairs);
    std::string workers;
    for (std::int64_t n = 1; n <= global_batch_size / (2 * sharding.micro_steps); ++n) {
      if (global_batch_size % (2 * sharding.micro_steps * n) == 0)
        workers += cat(workers.empty() ? "" : ", ", n);
    }
    if (!workers.empty()) remedy += cat(", or one of these worker counts: ", workers);
  }
  throw UserError(cat(key, " mixes pairs, but a worker's batch is ", sharding.batch,
                      sharding.micro_steps > 1 ? " in each micro-step" : "", "; use ", remedy));
}

}  // namespace flotilla
