// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "kernels/device.hpp"
#include "kernels/float_values.hpp"
#include "tests/bench/timing.hpp"

namespace flotilla::bench {

inline void fill(DeviceSpan<float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    values.address()[i] = static_cast<float>(i % 251) / 251.0F - 0.5F;
}

inline Tensor filled(Device& device, const Shape& shape) {
  Tensor tensor = device.images().tensor(shape);
  fill(float_values(tensor));
  return tensor;
}

inline double timed(const std::function<void()>& run) {
  const double before = now();
  run();
  return now() - before;
}

/// One convolution on one device.
class Convolution {
 public:
  static constexpr std::size_t passes = 3;

  Convolution(Device& device, const Conv2dSpec& spec)
      : plan_(device.layers().conv2d(spec)),
        w_(device.memory().allocate(static_cast<std::size_t>(plan_->weight_size()))),
        dw_(device.memory().allocate(w_.size())),
        x_(filled(device, spec.input)),
        y_(filled(device, plan_->output_shape())),
        dx_(device.images().tensor(spec.input)),
        has_(std::array{true, spec.input_gradient, true}) {
    fill(w_.span());
  }
  bool has(std::size_t pass) const { return has_[pass]; }
  double gflops() const { return 1e-9 * static_cast<double>(plan_->flops()); }
  void run(std::size_t pass) {
    if (pass == 0) plan_->forward(x_, {w_.span(), {}}, y_);
    if (pass == 1) plan_->backward_data(y_, {w_.span(), {}}, dx_);
    if (pass == 2) plan_->backward_weights(x_, y_, {dw_.span(), {}});
  }

 private:
  std::unique_ptr<Conv2d> plan_;
  Storage w_, dw_;
  Tensor x_, y_, dx_;
  std::array<bool, passes> has_;
};

}  // namespace flotilla::bench
