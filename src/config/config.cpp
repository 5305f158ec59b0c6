// SPDX-License-Identifier: Apache-2.0
#include "src/config/config.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

bool RunConfig::resumes_with(const std::string& path) const {
  const auto holds = [](const std::string& table, const std::string& inner) {
    return inner == table || inner.starts_with(table + ".");
  };
  return std::ranges::any_of(
      resume_with, [&](const std::string& named) { return holds(named, path) || holds(path, named); });
}

bool ModelConfig::has_batch_norm() const {
  const auto normalises = [](const std::string& text) {
    return text.find("batch_norm") != text.npos || text.find("projection") != text.npos;
  };
  return kind == "resnet" || (kind == "layers" && std::ranges::any_of(layers, normalises));
}

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
