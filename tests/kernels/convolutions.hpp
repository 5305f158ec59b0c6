// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/image_values.hpp"

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

/// What a convolution computes, everything in plain order.
struct ConvRun {
  std::vector<float> y, dx, dw, db;
};

/// Forward and backward of one layer, as many times as `passes` (with accumulate the gradients add up).
/// @param staged the input is a staged batch, as that of a first layer
inline ConvRun run_conv2d(Device& device, const Conv2dSpec& spec, int passes = 1,
                          const Values& values = default_values, bool staged = false) {
  const auto plan = device.layers().conv2d(spec);
  std::vector<float> stored(static_cast<std::size_t>(plan->weight_size()));
  plan->weight_from_plain(values(plain_size(spec), 2), stored);
  const Storage weight = storage_of(device, stored);
  const Storage bias = storage_of(device, values(spec.bias ? spec.out_channels : 0, 3));
  const GivenWeights w(device, weight.span(), bias.span());
  // What is there before must not matter without accumulate.
  const float before = spec.accumulate ? 0.0F : 99.0F;
  Storage dw = storage_of(device, std::vector<float>(stored.size(), before));
  Storage db = storage_of(device, std::vector<float>(bias.size(), before));
  std::vector<float> x_values = values(spec.input.size(), 1);
  Tensor x = staged ? Tensor(spec.input, DeviceSpan<float>{}, plan->batch_layout())
                    : image_of(device, spec.input, x_values);
  if (staged) device.tensors().stage(x_values, x);
  Tensor y = stale_image(device, plan->output_shape());
  Tensor dx = stale_image(device, spec.input);
  const Tensor dy = image_of(device, y.shape(), values(y.shape().size(), 4));
  for (int pass = 0; pass < passes; ++pass) {
    plan->forward(x, w, y);
    if (spec.input_gradient) plan->backward_data(dy, w, dx);
    plan->backward_weights(x, dy, {dw.span(), db.span()});
  }
  ConvRun results{read_image(device, y), read_image(device, dx),
                  std::vector<float>(static_cast<std::size_t>(plain_size(spec))), read(device, db)};
  plan->weight_to_plain(read(device, dw), results.dw);
  return results;
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
