// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace flotilla {

// A line of Criteo's logs: a label, then these.
constexpr std::int64_t criteo_numbers = 13;
constexpr std::int64_t criteo_categories = 26;

/// The least value and the 95th percentile of each number in the logs of Criteo's challenge of 2014: what
/// PaddlePaddle's CTR examples scale with.
constexpr std::array<float, criteo_numbers> criteo_least = {0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
constexpr std::array<float, criteo_numbers> criteo_cap = {20, 600, 100, 50, 64000, 500, 100,
                                                          50, 500, 10,  10, 10,    50};

}  // namespace flotilla
