// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/loop_tensors.hpp"

namespace flotilla {

/// The loss by own loops: forward() uploads the labels by DeviceMemory::upload, backward() reads those.
std::unique_ptr<SoftmaxLoss> make_softmax_loss(const LoopsContext& context, const SoftmaxLossSpec& spec);

}  // namespace flotilla
