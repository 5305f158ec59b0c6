// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/category_id.hpp"

#include <xxhash.h>

namespace flotilla {

std::uint64_t category_id(std::int64_t slot, std::string_view text, std::uint64_t buckets) {
  const std::uint64_t hash = XXH3_64bits_withSeed(text.data(), text.size(), static_cast<std::uint64_t>(slot));
  return buckets == 0 ? hash : hash % buckets;
}

}  // namespace flotilla
