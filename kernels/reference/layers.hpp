// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/layers.hpp"
#include "kernels/reference/rounding.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

/// Plans that compute by plain loops in double. `memory` must outlive them.
/// @param weight_gradients rounding of the gradients of convolutions' weights
std::unique_ptr<Layers> make_reference_layers(const reference::TaggedMemory& memory,
                                              reference::Rounding rounding,
                                              reference::Rounding weight_gradients);

}  // namespace flotilla
