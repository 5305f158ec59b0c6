// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/flat_updates.hpp"

namespace flotilla {

/// An update rule for rows: any but LambDirection, which needs norms of whole tensors.
struct RowRule {
  UpdateRule update = rules::Sgd{};
  Decay decay = Decay::coupled;
  float weight_decay = 0.0F;
  std::size_t slots() const {
    return rule_state_names(update).size();
  }  ///< Arrays of state in addition to the parameters
};

/// One update of rows anywhere in host memory, each followed by its optimizer state.
struct RowUpdate {
  std::span<float* const> rows{};  ///< Different ones: (1 + RowRule::slots, width) each, parameters first
  std::span<const float* const> gradients{};  ///< Gradient of each row: (width)
  std::size_t width = 0;
  float learning_rate = 0.0F;
  float gradient_scale = 1.0F;  ///< The gradient used is gradient_scale · gradient.
  std::int64_t step = 1;        ///< 1, 2, …: Adam's bias correction
};

/// Applies the rule to all rows, with the formulas, and so the bits, of the host's FlatMath.
void update_rows(const RowRule& rule, const RowUpdate& in);

/// Whether all values are numbers, without NaN and infinities.
bool finite(std::span<const float> values);

}  // namespace flotilla
