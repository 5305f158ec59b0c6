// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/listed_models.hpp"
#include "tests/support/relative_difference.hpp"

namespace flotilla::test {

/// A residual network for a batch of images.
struct ResnetCase {
  ResnetSpec model;
  Shape input;  ///< (N,3,H,W)
  WorkerExchange* exchange = nullptr;
};
std::unique_ptr<Network> make_resnet(Device& device, const ResnetCase& resnet);

/// A residual network with its arenas, random images and labels.
class ResnetRun {
 public:
  /// @param first_image of an endless row of random images: workers take different parts of it
  ResnetRun(const std::string& device, const ResnetCase& resnet, std::int64_t first_image = 0,
            int threads = 1, Precision precision = Precision::float32);

  /// See lift_above_zero.hpp.
  void lift_above_zero();

  double loss(Pass pass = Pass::training);  ///< Sum over the batch, forward pass only
  /// Forward and backward; gradients of scale · the sum of the batch's losses, 0: of their mean.
  double step(float scale = 0.0F);

  /// All tensors in the plain order of files, one after another.
  std::vector<float> plain(const TensorSet& tensors, DeviceSpan<const float> arena) const;
  std::vector<float> plain_gradients() const;
  std::vector<float> step_statistics() const;
  std::vector<float> logits() const;

  std::unique_ptr<Device> device;
  std::unique_ptr<Network> network;
  Storage parameters, gradients, statistics, step_values, sums;
  std::vector<float> images;
  std::vector<std::int32_t> labels;
};

}  // namespace flotilla::test
