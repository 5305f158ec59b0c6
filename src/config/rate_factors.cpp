// SPDX-License-Identifier: Apache-2.0
#include "src/config/rate_factors.hpp"

#include <charconv>
#include <cmath>
#include <system_error>

namespace flotilla::config {

std::optional<RateFactor> rate_factor(const std::string& text) {
  const std::size_t blank = text.find_last_of(' ');
  if (blank == std::string::npos) return std::nullopt;
  const std::size_t end = text.find_last_not_of(' ', blank);
  const char* const last = text.data() + text.size();
  RateFactor factor{.pattern = text.substr(0, end + 1)};
  const auto [stop, error] = std::from_chars(text.data() + blank + 1, last, factor.factor);
  const bool good = end != std::string::npos && error == std::errc{} && stop == last &&
                    std::isfinite(factor.factor) && factor.factor > 0.0;
  return good ? std::optional(factor) : std::nullopt;
}

}  // namespace flotilla::config
