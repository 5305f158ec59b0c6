// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/kernels/values.hpp"

namespace flotilla::test {

/// What one linear layer computes, weights and their gradient in plain order.
struct LinearRun {
  std::vector<float> y, dx, dw, db;
  std::vector<float> dz;  ///< The gradient before the activation
};

/// Forward and backward of one layer, as many times as `passes` (with accumulate the gradients add up).
inline LinearRun run_linear(Device& device, const LinearSpec& spec, int passes = 1,
                            const Values& values = default_values) {
  const auto plan = device.layers().linear(spec);
  const auto count = static_cast<std::size_t>(plan->weight_size());
  std::vector<float> stored(count);
  plan->weight_from_plain(values(spec.out * spec.in, 2), stored);
  const Storage weight = storage_of(device, stored);
  const Storage bias = storage_of(device, values(spec.bias ? spec.out : 0, 3));
  const GivenWeights w(device, weight.span(), bias.span());
  // What is there before must not matter without accumulate.
  const float before = spec.accumulate ? 0.0F : 99.0F;
  Storage weight_gradient = storage_of(device, std::vector<float>(count, before));
  Storage bias_gradient = storage_of(device, std::vector<float>(bias.size(), before));
  const Tensor x = tensor_of(device, {spec.batch, spec.in}, values(spec.batch * spec.in, 1));
  Tensor y = tensor_of(device, {spec.batch, spec.out},
                       std::vector<float>(static_cast<std::size_t>(spec.batch * spec.out), 99.0F));
  Tensor dx = device.tensors().zeros({spec.batch, spec.in});
  std::vector<float> dz;
  for (int pass = 0; pass < passes; ++pass) {
    Tensor dy = tensor_of(device, {spec.batch, spec.out}, values(spec.batch * spec.out, 4));
    plan->forward(x, w, y);
    plan->backward(x, y, w, dy, {weight_gradient.span(), bias_gradient.span()}, &dx);
    device.queue().synchronize();
    dz = read(device, dy);
  }
  LinearRun results{read(device, y), read(device, dx),
                    std::vector<float>(static_cast<std::size_t>(spec.out * spec.in)),
                    read(device, bias_gradient), dz};
  plan->weight_to_plain(read(device, weight_gradient), results.dw);
  return results;
}

}  // namespace flotilla::test
