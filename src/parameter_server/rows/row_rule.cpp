// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/row_rule.hpp"

#include "kernels/error.hpp"

namespace flotilla {

namespace {

RowRuleKind kind_of(const std::string& word) {
  if (word == "sgd") return RowRuleKind::sgd;
  if (word == "momentum") return RowRuleKind::momentum;
  if (word == "nesterov") return RowRuleKind::nesterov;
  if (word == "adam" || word == "adamw") return RowRuleKind::adam;
  if (word == "adagrad") return RowRuleKind::adagrad;
  throw UserError(cat("optimizer.kind = \"", word,
                      "\" needs norms of whole tensors, which tables of rows do "
                      "not have; use sgd, momentum, nesterov, adam, adamw or adagrad"));
}

}  // namespace

RowRule row_rule(const OptimizerConfig& config) {
  const bool decoupled = config.kind == "adamw" || config.decay == "decoupled";
  return {.kind = kind_of(config.kind),
          .decay = decoupled ? Decay::decoupled : Decay::coupled,
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
