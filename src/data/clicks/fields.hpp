// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace flotilla {

// A line of Criteo's logs: a label, then these.
constexpr std::int64_t criteo_numbers = 13;
constexpr std::int64_t criteo_categories = 26;

/// The least value and the 95th percentile of each number in the logs of Criteo's challenge of 2014: what
/// PaddlePaddle's CTR examples scale with.
constexpr std::array<float, criteo_numbers> criteo_least = {0, -3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
constexpr std::array<float, criteo_numbers> criteo_cap = {20, 600, 100, 50, 64000, 500, 100,
                                                          50, 500, 10,  10, 10,    50};

/// The id of a category, fixed in all versions: XXH3 (64 bits, xxHash 0.8) of its text with the slot as the
/// seed, modulo `buckets`; 0 buckets: all 64 bits. A missing category is the empty text.
std::uint64_t category_id(std::int64_t slot, std::string_view text, std::uint64_t buckets);

/// Whether `text` is one finite number and nothing else, as "7", "+1" or "-2.5e3"; it is then in `number`.
bool read_number(std::string_view text, float& number);

}  // namespace flotilla
