// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <span>

#include "kernels/random.hpp"
#include "src/data/images/image_transform.hpp"

namespace flotilla {

/// A random change of colours: brightness, contrast, saturation are factors (1: unchanged), hue a shift in
/// turns of the circle (0: unchanged).
struct ColourChange {
  enum Kind { brightness, contrast, saturation, hue };
  std::array<Kind, 4> order = {brightness, contrast, saturation, hue};
  std::array<float, 4> amount = {1.0F, 1.0F, 1.0F, 0.0F};  ///< By kind.
};

/// Draws order and amounts (torchvision's ColorJitter.get_params).
ColourChange draw_colour_change(Random& random, const ColorJitter& jitter);

/// Changes colours in place, one kind after the other, each clamped to [0, 1]. `planes` holds R, G, B of
/// equal size, values in [0, 1]. The formulas are those of torchvision for float tensors.
void change_colours(const ColourChange& change, std::span<float> planes);

}  // namespace flotilla
