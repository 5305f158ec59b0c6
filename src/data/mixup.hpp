// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/random.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// A value of the distribution Beta(alpha, alpha), alpha > 0: of two Gamma(alpha) values the first one's
/// share, by their logarithms, since those of a small alpha are too small for a double.
double symmetric_beta(double alpha, Random& random);

/// Mixup (Zhang et al. 2018) of two samples with each other: a ← (1 − share) a + share b and likewise for b.
void mix(std::span<float> a, std::span<float> b, float share);

/// Whether a worker's batch can be cut into pairs. @param global_batch_size of the deck; 0: it says
/// train.batch_size. @throws UserError naming the numbers that can.
void check_pairs(const Sharding& sharding, std::int64_t global_batch_size);

}  // namespace flotilla
