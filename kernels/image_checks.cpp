// SPDX-License-Identifier: Apache-2.0
#include "kernels/image_checks.hpp"

#include <cstdint>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

void check_input(const char* operation, const Shape& input) {
  require(input.rank() == 4 && input.size() > 0, operation,
          " needs an input (N,C,H,W) of positive sizes, got ", input.text());
}

void check_windows(const char* operation, const Shape& input, std::int64_t kernel, std::int64_t stride,
                   std::int64_t padding) {
  require(kernel > 0 && stride > 0 && padding >= 0, operation,
          " needs a positive kernel and stride and no negative padding, got ", kernel, ", ", stride, ", ",
          padding);
  require(input[2] + 2 * padding >= kernel && input[3] + 2 * padding >= kernel, operation, ": a kernel of ",
          kernel, " is larger than the image ", input.text(), " with padding ", padding);
}

}  // namespace

void check_spec(const Conv2dSpec& s) {
  check_input("a convolution", s.input);
  check_windows("a convolution", s.input, s.kernel, s.stride, s.padding);
  require(s.out_channels > 0 && s.groups > 0 && s.input[1] % s.groups == 0 && s.out_channels % s.groups == 0,
          "a convolution's groups must divide its channels, got ", s.groups, " groups of ", s.input[1],
          " to ", s.out_channels, " channels");
}

void check_spec(const BatchNormSpec& s) {
  check_input("batch norm", s.input);
  require(s.epsilon > 0.0F, "batch norm needs a positive epsilon, got ", s.epsilon);
}

void check_spec(const Pool2dSpec& s) {
  check_input("pooling", s.input);
  if (s.kind == Pooling::global_average) return;
  check_windows("pooling", s.input, s.kernel, s.stride, s.padding);
  require(2 * s.padding <= s.kernel, "pooling's padding must be at most half the kernel, got ", s.padding,
          " of ", s.kernel);
}

void check_spec(const DropoutSpec& s) {
  require(s.probability >= 0.0F && s.probability < 1.0F, "the probability of dropout must be in [0, 1), got ",
          s.probability);
  require(s.layer < (1U << 24), "dropout's layer must be below 2^24, got ", s.layer);
}

void check_image(const char* name, const Tensor& tensor, const Shape& shape) {
  // Two halves share a float.
  require(tensor.shape() == shape && 2 * tensor.span().size() >= static_cast<std::size_t>(shape.size()), name,
          " must be ", shape.text(), ", is ", tensor.shape().text());
}

void check_weights(const Conv2dSpec& spec, std::int64_t weight_size, std::size_t weight, std::size_t bias) {
  const std::int64_t biases = spec.bias ? spec.out_channels : 0;
  require(weight == static_cast<std::size_t>(weight_size), "the weight must hold ", weight_size,
          " values, has ", weight);
  require(bias == static_cast<std::size_t>(biases), "the bias must hold ", biases, " values, has ", bias);
}

void check_channels(const char* name, const BatchNormSpec& spec, const GivenStatistics& pair) {
  const auto channels = static_cast<std::size_t>(spec.input[1]);
  require(pair.first.size() == channels && pair.second.size() == channels, name, " must hold twice ",
          channels, " values, has ", pair.first.size(), " and ", pair.second.size());
}

void check_normalise(const BatchNormSpec& spec, const Tensor& x, const Tensor* residual, const ScaleShift& w,
                     const GivenStatistics& s, const Tensor& y) {
  check_image("x", x, spec.input);
  check_image("y", y, spec.input);
  check_channels("scale and shift", spec, w);
  check_channels("mean and variance", spec, s);
  require((residual != nullptr) == (spec.after == AfterNorm::add_relu),
          "batch norm takes a residual with add_relu, and only then");
  if (residual != nullptr) check_image("the residual", *residual, spec.input);
}

void check_backward_sums(const BatchNormSpec& spec, const Tensor& x, const Tensor& y, const ScaleShift& w,
                         const GivenStatistics& s, const Tensor& dy, const Tensor* more_dy,
                         const Tensor* dresidual, const GivenStatistics& sums) {
  check_normalise(spec, x, spec.after == AfterNorm::add_relu ? &y : nullptr, w, s, y);
  check_image("dy", dy, spec.input);
  check_channels("the sums", spec, sums);
  require((dresidual != nullptr) == (spec.after == AfterNorm::add_relu),
          "batch norm gives the gradient of a residual with add_relu, and only then");
  require(more_dy == nullptr || dresidual != nullptr, "a second gradient of y is for add_relu only");
  if (more_dy != nullptr) check_image("the second dy", *more_dy, spec.input);
  if (dresidual != nullptr) check_image("dresidual", *dresidual, spec.input);
}

void check_backward_data(const BatchNormSpec& spec, const Tensor& x, const ScaleShift& w,
                         const GivenStatistics& s, const GivenStatistics& sums, double count,
                         const Tensor& dy, const Tensor& dx) {
  check_image("x", x, spec.input);
  check_image("dy", dy, spec.input);
  check_image("dx", dx, spec.input);
  check_channels("scale and shift", spec, w);
  check_channels("mean and variance", spec, s);
  check_channels("the sums", spec, sums);
  require(count >= 1.0, "batch norm's sums are over at least one value per channel, got ", count);
}

void check_view(const Shape& shape, std::size_t floats, DeviceSpan<const float> memory) {
  require(memory.size() == floats, "a view of ", shape.text(), " takes ", floats, " floats of storage, got ",
          memory.size());
  require(reinterpret_cast<std::uintptr_t>(memory.address()) % 64 == 0, "a view of ", shape.text(),
          " must start on 64 bytes");
}

void check_elementwise(const ElementwiseSpec& spec, std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* tensor : tensors) check_image("a tensor of an activation", *tensor, spec.input);
}

void check_dropout(const DropoutSpec& spec, std::uint64_t step, const Tensor& from, const Tensor& to) {
  check_image("dropout's input", from, spec.input);
  check_image("dropout's output", to, spec.input);
  require(from.layout() == nullptr && to.layout() == nullptr, "dropout takes plain tensors only");
  require(step < (std::uint64_t{1} << 40), "dropout's step must be below 2^40, got ", step);
}

void check_32_bit_size(const char* who, const Shape& shape) {
  constexpr std::int64_t limit = std::int64_t{1} << 31;
  if (shape.size() >= limit)
    throw UserError(cat(who, " takes images of fewer than 2^31 values, not ", shape.text(), ", which are ",
                        shape.size(), ": make train.batch_size smaller, at most ",
                        shape[0] * (limit - 1) / shape.size(),
                        " on each GPU (train.accumulate_steps keeps the global batch)"));
}

}  // namespace flotilla
