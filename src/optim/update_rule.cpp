// SPDX-License-Identifier: Apache-2.0
#include "src/optim/update_rule.hpp"

#include "kernels/error.hpp"

namespace flotilla {

UpdateRule update_rule(const OptimizerConfig& config) {
  const auto mu = static_cast<float>(config.momentum);
  const auto epsilon = static_cast<float>(config.epsilon);
  const rules::Adam adam{.beta1 = static_cast<float>(config.beta1),
                         .beta2 = static_cast<float>(config.beta2),
                         .epsilon = epsilon};
  switch (config.kind) {
    case OptimizerKind::sgd: return rules::Sgd{};
    case OptimizerKind::momentum: return rules::Momentum{mu};
    case OptimizerKind::nesterov: return rules::Nesterov{mu};
    case OptimizerKind::lars: return rules::Lars{mu};
    case OptimizerKind::lamb: return rules::LambDirection{adam, {}};
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return adam;
    case OptimizerKind::adagrad: return rules::Adagrad{epsilon};
  }
  throw InternalError("an unknown optimizer");
}

Decay update_decay(const OptimizerConfig& config) {
  return config.kind == OptimizerKind::adamw ? Decay::decoupled : config.decay;
}

bool needs_norms(const OptimizerConfig& config) {
  return config.kind == OptimizerKind::lars || config.kind == OptimizerKind::lamb;
}

RowRule row_rule(const OptimizerConfig& config) {
  if (needs_norms(config)) {
    throw UserError(cat("optimizer.kind = \"", config.kind,
                        "\" needs norms of whole tensors, which tables of rows do "
                        "not have; use sgd, momentum, nesterov, adam, adamw or adagrad"));
  }
  return {.update = update_rule(config),
          .decay = update_decay(config),
          .weight_decay = static_cast<float>(config.weight_decay)};
}

std::vector<std::string> slot_names(const RowRule& rule) {
  const auto names = rule_state_names(rule.update);
  return {names.begin(), names.end()};
}

}  // namespace flotilla
