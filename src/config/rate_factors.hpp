// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace flotilla::config {

/// An entry of optimizer.rates, "fc.* 10": the learning rate of the parameters that the pattern matches is
/// multiplied by the factor.
struct RateFactor {
  std::string pattern;
  double factor = 1.0;
};

/// Nothing if `text` is not a pattern, blanks and a positive number.
std::optional<RateFactor> rate_factor(const std::string& text);

}  // namespace flotilla::config
