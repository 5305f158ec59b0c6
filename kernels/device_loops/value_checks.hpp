// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device_loops/device_loops.hpp"

/// Checks of the arguments of kernels. All throw InternalError naming the wrong value.
namespace flotilla::loops {

void check_address(const char* name, const GivenValues& values);  ///< Not null, aligned to 16 bytes.
void check_size(const char* name, const GivenValues& values, std::int64_t size);
void check_precision(const char* name, const GivenValues& values, const GivenValues& other);
/// Size and precision of `other`.
void check_like(const char* name, const GivenValues& values, const GivenValues& other);
/// Not null with add_relu, null otherwise.
void check_residual(const BatchNormSpec& spec, const GivenValues& residual, const GivenValues& other);
/// Not null with add_relu, null otherwise.
void check_mask(const BatchNormSpec& spec, const std::uint8_t* positive);
/// Four axes, and at least as many channels as the shape has.
void check_images(const Shape& shape, std::int64_t channels);
/// The rows of `channels` values that there are.
std::int64_t rows_of(const char* name, const GivenValues& values, std::int64_t channels);
void check_bias(DeviceSpan<const float> bias, std::int64_t channels);  ///< Empty, or one per channel.
void check_pool(const Pool2dSpec& spec, const std::uint8_t* chosen);   ///< Places fit a byte.
void check_loss(const OutputLossSpec& spec, const GivenValues& outputs, const DeviceTargets& targets);
void check_loss(const SoftmaxLossSpec& spec, const GivenValues& logits, const DeviceTargets& targets,
                std::size_t normalisers);

}  // namespace flotilla::loops
