// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/values.hpp"

/// What tests of convolutions in every precision share.
namespace flotilla::test {

/// For messages: "1x3x9x9 -> 17 kernel 7 …".
inline std::string text(const Conv2dSpec& s) {
  return cat(s.input.text(), " -> ", s.out_channels, " kernel ", s.kernel, " stride ", s.stride, " padding ",
             s.padding, " groups ", s.groups, s.bias ? " with bias" : "", s.accumulate ? " added up" : "");
}

/// Values of the weight in plain order.
inline std::int64_t plain_size(const Conv2dSpec& s) {
  return s.out_channels * s.input[1] / s.groups * s.kernel * s.kernel;
}

/// A weight comes back from the arena's layout as it was, and padding is zero.
inline void expect_weights_return(const Conv2d& plan, const Conv2dSpec& spec) {
  std::vector<float> plain = values(plain_size(spec), 9);
  for (float& value : plain) value += 2.0F;  // none is zero
  std::vector<float> stored(static_cast<std::size_t>(plan.weight_size()), 99.0F);
  std::vector<float> back(plain.size());

  plan.weight_from_plain(plain, stored);
  plan.weight_to_plain(stored, back);

  EXPECT_EQ(back, plain);
  EXPECT_EQ(std::count(stored.begin(), stored.end(), 0.0F),
            static_cast<std::ptrdiff_t>(stored.size() - plain.size()));
}

}  // namespace flotilla::test
