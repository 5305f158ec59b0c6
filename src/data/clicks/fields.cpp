// SPDX-License-Identifier: Apache-2.0
#include "src/data/clicks/fields.hpp"

#include <xxhash.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

namespace flotilla {

std::uint64_t category_id(std::int64_t slot, std::string_view text, std::uint64_t buckets) {
  const std::uint64_t hash = XXH3_64bits_withSeed(text.data(), text.size(), static_cast<std::uint64_t>(slot));
  return buckets == 0 ? hash : hash % buckets;
}

bool read_number(std::string_view text, float& number) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  // Nearly all are whole, and those read much faster.
  std::int64_t whole = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, whole);
  if (stop == end && error == std::errc{}) {
    number = static_cast<float>(whole);
    return true;
  }
  double value = 0.0;
  const auto [second_stop, second_error] = std::from_chars(text.data(), end, value);
  if (second_stop != end || second_error != std::errc{}) return false;
  if (!(std::abs(value) <= double{std::numeric_limits<float>::max()})) return false;  // NaN too
  number = static_cast<float>(value);
  return true;
}

}  // namespace flotilla
