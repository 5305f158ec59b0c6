// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_loops/loop_tensors.hpp"

#include "kernels/error.hpp"

namespace flotilla {

bool is_nhwc(const Tensor& tensor) {
  const Shape& shape = tensor.shape();
  return dynamic_cast<const NhwcLayout*>(tensor.layout()) != nullptr ||
         (shape.rank() == 4 && (shape[1] == 1 || shape[2] * shape[3] == 1));
}

std::size_t floats_of(std::int64_t size, Precision precision) {
  const auto values = static_cast<std::size_t>(size);
  return is_half(precision) ? (values + 1) / 2 : values;
}

Values values_of(Tensor& tensor, Precision precision) {
  const std::int64_t size = tensor.shape().size();
  require(tensor.span().size() >= floats_of(size, precision), "a tensor of ", tensor.shape().text(), " in ",
          tensor.span().size(), " floats of storage is too small");
  return {tensor.span().address(), size, precision};
}

GivenValues values_of(const Tensor& tensor, Precision precision) {
  const std::int64_t size = tensor.shape().size();
  require(tensor.span().size() >= floats_of(size, precision), "a tensor of ", tensor.shape().text(), " in ",
          tensor.span().size(), " floats of storage is too small");
  return {tensor.span().address(), size, precision};
}

void check_shape(const char* name, const Tensor& tensor, const Shape& shape) {
  require(tensor.shape() == shape, name, " must be ", shape.text(), ", is ", tensor.shape().text());
}

void check_nhwc(const char* name, const Tensor& tensor, const Shape& shape) {
  check_shape(name, tensor, shape);
  require(is_nhwc(tensor), name, " must be an image tensor (NHWC), not a plain one");
}

}  // namespace flotilla
