// SPDX-License-Identifier: Apache-2.0
#include "src/data/mixup.hpp"

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

void check_pairs(const Sharding& sharding, std::int64_t global_batch_size) {
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
  throw UserError(cat("train.mixup mixes pairs, but a worker's batch is ", sharding.batch,
                      sharding.micro_steps > 1 ? " in each micro-step" : "", "; use ", remedy));
}

}  // namespace flotilla
