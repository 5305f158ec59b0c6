// SPDX-License-Identifier: Apache-2.0
#include "src/config/config.hpp"

#include "kernels/error.hpp"

namespace flotilla {

std::string LocalSgdConfig::state_kind() const {
  return outer.kind == OuterKind::none ? "" : cat(", strategy.outer.kind = \"", outer.kind, "\"");
}

StrategyKind Config::strategy_kind() const {
  return std::visit([](const auto& chosen) { return chosen.kind(); }, strategy);
}

std::string Config::state_kind() const {
  return cat("strategy.kind = \"", strategy_kind(), "\"",
             std::visit([](const auto& chosen) { return chosen.state_kind(); }, strategy));
}

}  // namespace flotilla
