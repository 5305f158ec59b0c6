// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "kernels/row_update.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// The rule of a deck's optimizer. That of LAMB has no array for the direction.
UpdateRule update_rule(const OptimizerConfig& config);

/// Decoupled for "adamw", whatever optimizer.decay says.
Decay update_decay(const OptimizerConfig& config);

/// Whether an update depends on norms of whole tensors: "lars" and "lamb".
bool needs_norms(const OptimizerConfig& config);

/// The rule of a deck's optimizer for rows of tables. no_decay does not apply: rows are neither biases nor
/// batch norms.
/// @throws UserError for LARS and LAMB, which need norms of whole tensors
RowRule row_rule(const OptimizerConfig& config);

/// The names of the rule's state in checkpoints, as Optimizer::slots() has them.
std::vector<std::string> slot_names(const RowRule& rule);

}  // namespace flotilla
