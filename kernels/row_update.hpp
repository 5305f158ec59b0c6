// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/flat_updates.hpp"

namespace flotilla {

enum class RowRuleKind { sgd, momentum, nesterov, adam, adagrad };

/// A rule of kernels/flat_updates.hpp with its constants.
struct RowRule {
  RowRuleKind kind = RowRuleKind::sgd;
  Decay decay = Decay::coupled;
  float weight_decay = 0.0F;
  float momentum = 0.9F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
};

/// Arrays of state that the rule keeps beside the parameters.
std::size_t state_slots(RowRuleKind kind);

/// One update of rows anywhere in host memory, each followed by its optimizer state.
struct RowUpdate {
  std::span<float* const> rows{};  ///< Different ones: (1 + state_slots, width) each, parameters first
  std::span<const float* const> gradients{};  ///< Of each row: (width)
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
