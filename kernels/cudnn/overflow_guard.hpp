// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/loop_tensors.hpp"

namespace flotilla {

/// Decides by own loops whether a step is taken.
std::unique_ptr<OverflowGuard> make_overflow_guard(const LoopsContext& context,
                                                   const OverflowGuardSpec& spec);

}  // namespace flotilla
