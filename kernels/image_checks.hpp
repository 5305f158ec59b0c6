// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>

#include "kernels/layers/layers.hpp"

/// Checks of the arguments of image operations, for all devices in host memory. All throw InternalError
/// naming the wrong value.
namespace flotilla {

void check_spec(const Conv2dSpec& spec);     ///< Positive sizes, groups that divide, an output.
void check_spec(const BatchNormSpec& spec);  ///< Four axes, positive sizes and epsilon.
void check_spec(const Pool2dSpec& spec);     ///< Positive sizes, an output, no window of padding only.
void check_spec(const DropoutSpec& spec);    ///< Probability in [0, 1), layer below 2^24.

/// A tensor of this shape whose storage holds it.
void check_image(const char* name, const Tensor& tensor, const Shape& shape);
void check_weights(const Conv2dSpec& spec, std::int64_t weight_size, std::size_t weight, std::size_t bias);
void check_channels(const char* name, const BatchNormSpec& spec, const GivenStatistics& pair);
void check_normalise(const BatchNormSpec& spec, const Tensor& x, const Tensor* residual, const ScaleShift& w,
                     const GivenStatistics& s, const Tensor& y);
void check_backward_sums(const BatchNormSpec& spec, const Tensor& x, const Tensor& y, const ScaleShift& w,
                         const GivenStatistics& s, const Tensor& dy, const Tensor* more_dy,
                         const Tensor* dresidual, const GivenStatistics& sums);
void check_backward_data(const BatchNormSpec& spec, const Tensor& x, const ScaleShift& w,
                         const GivenStatistics& s, const GivenStatistics& sums, double count,
                         const Tensor& dy, const Tensor& dx);
/// The memory for a view of that shape has the `floats` floats that its values take, and is aligned to 64
/// bytes.
void check_view(const Shape& shape, std::size_t floats, DeviceSpan<const float> memory);
/// Tensors of the spec's shape.
void check_elementwise(const ElementwiseSpec& spec, std::initializer_list<const Tensor*> tensors);
/// Plain tensors of the spec's size, step below 2^40.
void check_dropout(const DropoutSpec& spec, std::uint64_t step, const Tensor& from, const Tensor& to);

/// For libraries and loops that count values in 32 bits. @param who "cuDNN"
/// @throws UserError if a tensor of that shape has 2³¹ values or more
void check_32_bit_size(const char* who, const Shape& shape);

}  // namespace flotilla
