// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/row_rule.hpp"

#include "kernels/error.hpp"

namespace flotilla {

namespace {

RowRuleKind kind_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::sgd: return RowRuleKind::sgd;
    case OptimizerKind::momentum: return RowRuleKind::momentum;
    case OptimizerKind::nesterov: return RowRuleKind::nesterov;
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return RowRuleKind::adam;
    case OptimizerKind::adagrad: return RowRuleKind::adagrad;
    case OptimizerKind::lars:
    case OptimizerKind::lamb: break;
  }
  throw UserError(cat("optimizer.kind = \"", kind,
                      "\" needs norms of whole tensors, which tables of rows do "
                      "not have; use sgd, momentum, nesterov, adam, adamw or adagrad"));
}

}  // namespace

RowRule row_rule(const OptimizerConfig& config) {
  return {.kind = kind_of(config.kind),
          .decay = config.kind == OptimizerKind::adamw ? Decay::decoupled : config.decay,
          .weight_decay = static_cast<float>(config.weight_decay),
          .momentum = static_cast<float>(config.momentum),
          .beta1 = static_cast<float>(config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .epsilon = static_cast<float>(config.epsilon)};
}

std::vector<std::string> slot_names(RowRuleKind kind) {
  switch (kind) {
    case RowRuleKind::sgd: return {};
    case RowRuleKind::momentum:
    case RowRuleKind::nesterov: return {"momentum"};
    case RowRuleKind::adam: return {"adam_m", "adam_v"};
    case RowRuleKind::adagrad: return {"adagrad_sum"};
  }
  throw InternalError(cat("there is no rule ", static_cast<int>(kind)));
}

}  // namespace flotilla
