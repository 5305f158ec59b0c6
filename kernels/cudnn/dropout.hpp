// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device_loops/loop_tensors.hpp"

namespace flotilla {

/// Dropout by own loops.
std::unique_ptr<Dropout> make_dropout(const LoopsContext& context, const DropoutSpec& spec);

}  // namespace flotilla
