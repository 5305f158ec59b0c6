// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/kernels/image_values.hpp"

namespace flotilla::test {

/// Two values for each channel on a device.
struct ChannelValues {
  Storage first, second;
  ChannelPair<float> span() { return {first.span(), second.span()}; }

  ChannelValues(Device& device, const std::vector<float>& one, const std::vector<float>& other)
      : first(storage_of(device, one)), second(storage_of(device, other)) {}
  /// Random ones; the first are raised by `by`.
  ChannelValues(Device& device, std::int64_t channels, std::uint64_t stream, float by)
      : ChannelValues(device, raised(values(channels, stream), by), values(channels, stream + 1)) {}
};

/// Passes of batch norm over random values.
struct BatchNormCase {
  BatchNormSpec spec;
  Precision precision = Precision::float32;  ///< Precision of inputs and gradients
  float centre = 0.0F;                       ///< Centre of the values that are normalised
  bool two_gradients = false;                ///< Two gradients of y are added
  int passes = 1;

  std::string text() const {
    return cat(spec.input.text(), " after ", static_cast<int>(spec.after), " centre ", centre);
  }
};

struct BatchNormResults {
  std::vector<float> mean, variance, y, inferred, dx, dresidual, dscale, dshift;
  friend bool operator==(const BatchNormResults&, const BatchNormResults&) = default;
};

/// Training forward and backward, then inference in place with other statistics.
inline BatchNormResults run_batch_norm(Device& device, const BatchNormCase& of) {
  const BatchNormSpec& spec = of.spec;
  const auto plan = device.layers().batch_norm(spec);
  const std::int64_t channels = spec.input[1];
  const auto image = [&](std::uint64_t stream, float centre = 0.0F) {
    return image_of(device, spec.input,
                    rounded(of.precision, raised(values(spec.input.size(), stream), centre)));
  };
  const Tensor x = image(1, of.centre);
  const Tensor residual = image(2);
  const Tensor dy = image(3);
  const Tensor more = image(4);
  ChannelValues w(device, channels, 5, 1.5F);
  const std::vector<float> stale = filled(channels, 99.0F);
  ChannelValues batch(device, stale, stale);
  // What is there before must not matter without accumulate.
  const std::vector<float> before = filled(channels, spec.accumulate ? 1.0F : 99.0F);
  ChannelValues gradients(device, before, before);
  Tensor y = stale_image(device, spec.input);
  Tensor dx = stale_image(device, spec.input);
  Tensor dresidual = stale_image(device, spec.input);
  const bool adds = spec.after == AfterNorm::add_relu;
  for (int pass = 0; pass < of.passes; ++pass) {
    plan->forward(x, adds ? &residual : nullptr, w.span(), batch.span(), {}, y);
    plan->backward(x, y, w.span(), batch.span(), dy, of.two_gradients ? &more : nullptr, gradients.span(), dx,
                   adds ? &dresidual : nullptr);
  }
  std::vector<float> variances = values(channels, 10);
  for (float& value : variances) value = value * value + (is_half(of.precision) ? 0.5F : 0.0F);
  ChannelValues running(device, values(channels, 9), variances);
  Tensor in_place = image(1, of.centre);
  plan->normalise(in_place, adds ? &residual : nullptr, w.span(), running.span(), in_place);
  return {read(device, batch.first),     read(device, batch.second),    read_image(device, y),
          read_image(device, in_place),  read_image(device, dx),        read_image(device, dresidual),
          read(device, gradients.first), read(device, gradients.second)};
}

struct Pool2dResults {
  std::vector<float> y, dx;
  friend bool operator==(const Pool2dResults&, const Pool2dResults&) = default;
};

/// Pooling forward and backward, of few different values, so that windows have several largest ones.
/// @param precision that has the gradients
inline Pool2dResults run_pool2d(Device& device, const Pool2dSpec& spec, Precision precision) {
  const auto plan = device.layers().pool2d(spec);
  const Shape output = plan->output_shape();
  std::vector<float> inputs = values(spec.input.size(), 1, 4.0);
  for (float& value : inputs) value = std::round(value);
  const Tensor x = image_of(device, spec.input, inputs);
  const Tensor dy = image_of(device, output, rounded(precision, values(output.size(), 2)));
  Tensor y = stale_image(device, output);
  Tensor dx = stale_image(device, spec.input);
  plan->forward(x, y);
  plan->backward(dy, dx);
  return {read_image(device, y), read_image(device, dx)};
}

}  // namespace flotilla::test
