// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_loops/loop_tensors.hpp"

#include "kernels/error.hpp"

namespace flotilla {

namespace {

const FilledLayout* filled_layout(const Tensor& tensor) {
  return dynamic_cast<const FilledLayout*>(tensor.layout());
}

/// @throws InternalError unless the tensor has `size` values in memory
void check_storage(const Tensor& tensor, std::int64_t size, Precision precision) {
  require(tensor.span().size() >= floats_of(size, precision), "a tensor of ", tensor.shape().text(), " in ",
          tensor.span().size(), " floats of storage is too small");
}

void check_values(const Tensor& tensor, Precision precision) {
  require(filled_layout(tensor) == nullptr, "a batch of ", tensor.shape().text(),
          " that is laid out for a first convolution is for no other operation");
  check_storage(tensor, tensor.shape().size(), precision);
}

}  // namespace

bool is_nhwc(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  if (tensor.layout() != nullptr) return dynamic_cast<const NhwcLayout*>(tensor.layout()) != nullptr;
  return shape.rank() == 4 && (shape[1] == 1 || shape[2] * shape[3] == 1);
}

std::int64_t stored_channels(const Tensor& image) {
  const FilledLayout* const filled = filled_layout(image);
  return filled == nullptr ? image.shape()[1] : filled->channels();
}

Values stored_values(Tensor& image, Precision precision) {
  const std::int64_t size = image.shape().size() / image.shape()[1] * stored_channels(image);
  check_storage(image, size, precision);
  return {image.span().address(), size, precision};
}

std::size_t floats_of(std::int64_t size, Precision precision) {
  const auto values = static_cast<std::size_t>(size);
  return is_half(precision) ? (values + 1) / 2 : values;
}

std::int64_t norm_mask_bytes(const BatchNormSpec& spec, Precision precision) {
  const std::int64_t pack = is_half(precision) ? 8 : 4;  // as full_pack
  return spec.input[1] % pack == 0 ? spec.input.size() / pack : spec.input.size();
}

Values values_of(Tensor& tensor, Precision precision) {
  check_values(tensor, precision);
  return {tensor.span().address(), tensor.shape().size(), precision};
}

GivenValues values_of(const Tensor& tensor, Precision precision) {
  check_values(tensor, precision);
  return {tensor.span().address(), tensor.shape().size(), precision};
}

const void* operand_of(DeviceSpan<const float> parameter, GivenHalfSpan halves, Precision precision) {
  if (!is_half(precision)) return parameter.address();
  require(halves.size() == parameter.size(), halves.size(), " halves of ", parameter.size(), " parameters");
  return halves.address();
}

void check_shape(const char* name, const Tensor& tensor, const Shape& shape) {
  require(tensor.shape() == shape, name, " must be ", shape.text(), ", is ", tensor.shape().text());
}

void check_nhwc(const char* name, const Tensor& tensor, const Shape& shape) {
  check_shape(name, tensor, shape);
  require(is_nhwc(tensor), name, " must be an image tensor (NHWC), not a plain one");
}

}  // namespace flotilla
