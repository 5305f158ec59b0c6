// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/random.hpp"
#include "src/data/sampler.hpp"

namespace flotilla {

/// A value of the distribution Beta(alpha, alpha), alpha > 0: computed as the share of one of two
/// Gamma(alpha) values, by their logarithms, since for a small alpha the values underflow.
double symmetric_beta(double alpha, Random& random);

/// Mixup (Zhang et al. 2018) of two samples with each other: a ← (1 − share) a + share b, b ← (1 − share) b +
/// share a.
void mix(std::span<float> a, std::span<float> b, float share);

/// Checks that a worker's batch consists of pairs. @param global_batch_size of the deck; 0: it gives
/// train.batch_size.
/// @throws UserError naming valid sizes.
void check_pairs(const Sharding& sharding, std::int64_t global_batch_size);

}  // namespace flotilla
