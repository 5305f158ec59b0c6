// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

/// The shared memories of a residual network's activations (ActivationMemory::share).
namespace flotilla::slots {

// Slots for inference, where everything is done in place: outputs of blocks alternate between 0 and 1.
inline constexpr std::size_t inference_output = 0;
inline constexpr std::size_t inference_inner = 2;     // one for each inner unit of a block
inline constexpr std::size_t inference_shortcut = 4;  // also the first layer's

// Slots for training.
inline constexpr std::size_t shortcut = 0;          // the output of the shortcut
inline constexpr std::size_t recomputed_last = 1;   // the last convolution of a block that is computed again
inline constexpr std::size_t recomputed_inner = 2;  // two for each inner unit of such a block

}  // namespace flotilla::slots
