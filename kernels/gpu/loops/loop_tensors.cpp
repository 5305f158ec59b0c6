// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/loops/loop_tensors.hpp"

#include "kernels/error.hpp"

namespace flotilla {

namespace {

const StagedLayout* staged_layout(const Tensor& tensor) {
  return dynamic_cast<const StagedLayout*>(tensor.layout());
}

/// @throws InternalError unless the tensor has `size` values in memory
void check_storage(const Tensor& tensor, std::int64_t size, Precision precision) {
  require(tensor.span().size() >= floats_of(size, precision), "a tensor of ", tensor.shape().text(), " in ",
          tensor.span().size(), " floats of storage is too small");
  check_address("a tensor", {tensor.span().address(), size, precision});
}

void check_values(const Tensor& tensor, Precision precision) {
  require(staged_layout(tensor) == nullptr, "a batch of ", tensor.shape().text(),
          " that is laid out for a first convolution is for no other operation");
  check_storage(tensor, tensor.shape().size(), precision);
}

}  // namespace

bool is_nhwc(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  if (tensor.layout() != nullptr) return dynamic_cast<const NhwcLayout*>(tensor.layout()) != nullptr;
  return shape.rank() == 4 && (shape[1] == 1 || shape[2] * shape[3] == 1);
}

ImageForm stored_form(const Tensor& image) {
  const StagedLayout* const staged = staged_layout(image);
  return staged == nullptr ? ImageForm{.channels = image.shape()[1]} : staged->form();
}

Values stored_values(Tensor& image, Precision precision) {
  const std::int64_t size = stored_form(image).size(image.shape());
  check_storage(image, size, precision);
  return {image.span().address(), size, precision};
}

std::size_t floats_of(std::int64_t size, Precision precision) {
  const auto values = static_cast<std::size_t>(size);
  return is_half(precision) ? (values + 1) / 2 : values;
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

void check_address(const char* name, const GivenValues& values) {
  require(values.size == 0 || values.address != nullptr, name, " must be there");
  require(reinterpret_cast<std::uintptr_t>(values.address) % 16 == 0, name, " must start on 16 bytes");
}

void check_size(const char* name, const GivenValues& values, std::int64_t size) {
  require(values.size == size, name, " must hold ", size, " values, has ", values.size);
  check_address(name, values);
}

void check_like(const char* name, const GivenValues& values, const GivenValues& other) {
  check_size(name, values, other.size);
  require(values.precision == other.precision, name, " must have the precision of the other values");
}

void check_images(const Shape& shape, const ImageForm& form) {
  require(shape.rank() == 4 && shape.size() > 0 && form.channels >= shape[1], "images of ", shape.text(),
          " with ", form.channels, " channels cannot be laid out");
  require(!form.folded() || (form.channels == 4 * folded_channels && shape[1] <= folded_channels &&
                             form.size(shape) <= 0x7FFFFFFF),
          "images of ", shape.text(), " cannot be folded");
}

std::int64_t rows_of(const char* name, const GivenValues& values, std::int64_t channels) {
  require(channels > 0 && values.size > 0 && values.size % channels == 0, name, " must be rows of ", channels,
          " values, has ", values.size);
  check_address(name, values);
  return values.size / channels;
}

void check_bias(DeviceSpan<const float> bias, std::int64_t channels) {
  require(bias.empty() || bias.size() == static_cast<std::size_t>(channels), "the bias must hold ", channels,
          " values, has ", bias.size());
}

}  // namespace flotilla
