// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/loop_tensors.hpp"

namespace flotilla {

/// Pooling of NHWC images by own loops.
std::unique_ptr<Pool2d> make_pool2d(const LoopsContext& context, const Pool2dSpec& spec);

}  // namespace flotilla
