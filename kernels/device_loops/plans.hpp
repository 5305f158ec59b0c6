// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device.hpp"
#include "kernels/device_loops/device_loops.hpp"

/// Plans of kernels/layers/ made of DeviceLoops alone, for devices with their own memory. They check
/// arguments and call; image tensors are NHWC.
namespace flotilla {

/// The context of plans; memory and loops must outlive them.
struct LoopsContext {
  const DeviceMemory& memory;
  DeviceLoops& loops;
  Precision precision = Precision::float32;  ///< Of activations.
};

/// (N,H,W,C) in memory, values of the device's precision. A tensor of four axes without layout
/// (Tensors) is (N,C,H,W).
class NhwcLayout : public Layout {};

/// Whether the tensor's values lie as (N,H,W,C): by its layout, or because that makes no difference.
bool is_nhwc(const Tensor& tensor);

/// Floats of storage that `size` values take: half as many, rounded up, in half precision.
std::size_t floats_of(std::int64_t size, Precision precision);

/// The values of an activation tensor: shape().size() of this precision. @throws InternalError if the storage
/// is too small for them.
Values values_of(Tensor& tensor, Precision precision);
GivenValues values_of(const Tensor& tensor, Precision precision);

std::unique_ptr<BatchNorm> make_batch_norm(const LoopsContext& context, const BatchNormSpec& spec);
std::unique_ptr<Pool2d> make_pool2d(const LoopsContext& context, const Pool2dSpec& spec);
std::unique_ptr<Dropout> make_dropout(const LoopsContext& context, const DropoutSpec& spec);
std::unique_ptr<OverflowGuard> make_overflow_guard(const LoopsContext& context,
                                                   const OverflowGuardSpec& spec);
/// forward() uploads the labels by DeviceMemory::upload; backward() reads those.
std::unique_ptr<SoftmaxLoss> make_softmax_loss(const LoopsContext& context, const SoftmaxLossSpec& spec);

}  // namespace flotilla
