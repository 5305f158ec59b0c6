// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gpu/loops/device_loops.hpp"

/// Tensors of devices that compute with DeviceLoops: image tensors are NHWC.
namespace flotilla {

/// (N,H,W,C) in memory, values of the device's precision. A tensor of four axes without layout
/// (Tensors) is (N,C,H,W).
class NhwcLayout : public Layout {};

/// Folded, or with more channels than the shape has: a batch for a first convolution, which alone takes it.
class StagedLayout : public Layout {
 public:
  explicit StagedLayout(const ImageForm& form) : form_(form) {}
  const ImageForm& form() const { return form_; }

 private:
  ImageForm form_;
};
/// The form of an image tensor in memory: that of its StagedLayout, or the channels of its shape.
ImageForm stored_form(const Tensor& image);
/// The values of an image tensor in memory.
Values stored_values(Tensor& image, Precision precision);

/// Whether the tensor's values lie as (N,H,W,C): by its layout, or because that makes no difference.
bool is_nhwc(const Tensor& tensor);

/// Floats of storage that `size` values take: half as many, rounded up, in half precision.
std::size_t floats_of(std::int64_t size, Precision precision);

/// The values of an activation tensor: shape().size() of this precision. @throws InternalError if the storage
/// is too small for them, or if they lie in a StagedLayout.
Values values_of(Tensor& tensor, Precision precision);
GivenValues values_of(const Tensor& tensor, Precision precision);

/// The address at which products and convolutions of this precision read a parameter: its floats or its
/// halves.
/// @throws InternalError if halves are read and not given
const void* operand_of(DeviceSpan<const float> parameter, GivenHalfSpan halves, Precision precision);

/// @throws InternalError unless the tensor has this shape
void check_shape(const char* name, const Tensor& tensor, const Shape& shape);
/// @throws InternalError unless the tensor has this shape and is_nhwc()
void check_nhwc(const char* name, const Tensor& tensor, const Shape& shape);

// Checks of the arguments of kernels. All throw InternalError naming the wrong value.

void check_address(const char* name, const GivenValues& values);  ///< Not null, aligned to 16 bytes.
void check_size(const char* name, const GivenValues& values, std::int64_t size);
/// Size and precision of `other`.
void check_like(const char* name, const GivenValues& values, const GivenValues& other);
/// Four axes, and at least as many channels as the shape has; folded, at most four and indices of 32 bits.
void check_images(const Shape& shape, const ImageForm& form);
/// The rows of `channels` values that there are.
std::int64_t rows_of(const char* name, const GivenValues& values, std::int64_t channels);
void check_bias(DeviceSpan<const float> bias, std::int64_t channels);  ///< Empty, or one per channel.

}  // namespace flotilla
