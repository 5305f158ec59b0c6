// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/loop_tensors.hpp"

namespace flotilla {

/// Batch norm of NHWC images by own loops.
std::unique_ptr<BatchNorm> make_batch_norm(const LoopsContext& context, const BatchNormSpec& spec);

}  // namespace flotilla
