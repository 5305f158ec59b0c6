// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/device.hpp"
#include "kernels/float_values.hpp"
#include "kernels/half_rounding.hpp"
#include "kernels/random.hpp"

namespace flotilla::test {

/// `count` values, uniform in [−range, range), the same for the same `stream`.
inline std::vector<float> values(std::int64_t count, std::uint64_t stream, double range = 1.0) {
  Random random(42, random_data, stream);
  std::vector<float> made(static_cast<std::size_t>(count));
  for (float& value : made) value = static_cast<float>(range * (2.0 * random.uniform() - 1.0));
  return made;
}

inline std::vector<float> filled(std::int64_t count, float value) {
  return std::vector<float>(static_cast<std::size_t>(count), value);
}
inline std::vector<float> raised(std::vector<float> values, float by) {
  for (float& value : values) value += by;
  return values;
}

constexpr Precision all_precisions[] = {Precision::float32, Precision::float16, Precision::bfloat16};

/// `values` as `precision` holds them.
inline std::vector<float> rounded(Precision precision, std::vector<float> values) {
  for (float& value : values) value = half::rounded(precision, value);
  return values;
}

/// 2^-p of p significant bits: the largest relative error of rounding. Values reach it, so that bounds of one
/// rounding allow for two: both sides' neighbours.
double rounding_error(Precision precision);

/// The largest difference of values below 1 that two devices round once when they store them; 0 for float32,
/// where this rounding is one of many.
inline double stored_apart(Precision precision) {
  return is_half(precision) ? 2.0 * rounding_error(precision) : 0.0;
}

/// A function like values(): returns `count` values of the random stream `stream`.
using Values = std::function<std::vector<float>(std::int64_t count, std::uint64_t stream)>;
inline std::vector<float> default_values(std::int64_t count, std::uint64_t stream) {
  return values(count, stream);
}

/// A tensor of the device that holds `values`, rounded where it holds halves.
inline Tensor tensor_of(Device& device, const Shape& shape, std::vector<float> values) {
  Tensor made = device.tensors().zeros(shape);
  if (device.tensors().floats_of({2}) == 2) {  // no halves
    device.memory().upload(values, float_values(made));
  } else {
    device.tensors().stage(values, made);
    device.tensors().finish_staging();
  }
  return made;
}

inline Storage storage_of(Device& device, const std::vector<float>& values) {
  Storage made = device.memory().allocate(values.size());
  device.memory().upload(values, made.span());
  return made;
}

/// The parameters of a plan as a layer gives them: with their halves where the device reads those.
class GivenWeights {
 public:
  GivenWeights(Device& device, DeviceSpan<const float> weight, DeviceSpan<const float> bias = {})
      : weights_{.weight = weight, .bias = bias} {
    if (!device.info().reads_halves) return;
    weights_.half_weight = halves(device, weight, weight_);
    weights_.half_bias = halves(device, bias, bias_);
  }
  operator Weights() const { return weights_; }

 private:
  static GivenHalfSpan halves(Device& device, DeviceSpan<const float> of, Storage& made) {
    made = device.memory().allocate((of.size() + 1) / 2);
    const HalfSpan to{reinterpret_cast<std::uint16_t*>(made.span().address()), of.size()};
    if (!of.empty()) device.tensors().round(of, to);
    return to;
  }

  Storage weight_;
  Storage bias_;
  Weights weights_;
};

inline std::vector<float> read(Device& device, DeviceSpan<const float> from) {
  std::vector<float> values(from.size());
  device.memory().download(from, values);
  return values;
}
inline std::vector<float> read(Device& device, const Tensor& from) {
  std::vector<float> values(static_cast<std::size_t>(from.shape().size()));
  device.tensors().download(from, values);
  return values;
}
inline std::vector<float> read(Device& device, const Storage& from) {
  return read(device, from.span());
}

/// The largest absolute difference of two arrays; infinite if their sizes differ or one is NaN where the
/// other is not.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace flotilla::test
