// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/loop_tensors.hpp"

namespace flotilla {

// Plans whose kernels are our own (Kokkos), each in the source named after it. Images are NHWC.

std::unique_ptr<BatchNorm> make_batch_norm(const LoopsContext& context, const BatchNormSpec& spec);
std::unique_ptr<LayerNorm> make_layer_norm(const LoopsContext& context, const LayerNormSpec& spec);
std::unique_ptr<Pool2d> make_pool2d(const LoopsContext& context, const Pool2dSpec& spec);
std::unique_ptr<Elementwise> make_elementwise(const LoopsContext& context, const ElementwiseSpec& spec);
std::unique_ptr<Dropout> make_dropout(const LoopsContext& context, const DropoutSpec& spec);
/// forward() uploads the labels by DeviceMemory::upload, backward() reads those.
std::unique_ptr<Loss> make_softmax_loss(const LoopsContext& context, const SoftmaxLossSpec& spec);
/// forward() uploads the targets by DeviceMemory::upload, backward() reads those.
std::unique_ptr<Loss> make_output_loss(const LoopsContext& context, const OutputLossSpec& spec);
/// Decides whether a step is taken.
std::unique_ptr<OverflowGuard> make_overflow_guard(const LoopsContext& context,
                                                   const OverflowGuardSpec& spec);

}  // namespace flotilla
