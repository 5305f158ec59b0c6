// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace flotilla {

/// The id of a category, fixed in all versions: XXH3 (64 bits, xxHash 0.8) of its text with the slot as the
/// seed, modulo `buckets`; 0 buckets: all 64 bits. A missing category is the empty text.
std::uint64_t category_id(std::int64_t slot, std::string_view text, std::uint64_t buckets);

}  // namespace flotilla
