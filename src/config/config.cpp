// SPDX-License-Identifier: Apache-2.0
#include "src/config/config.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// One value for each output of what a deck gives as one for each, one for all, or none.
std::vector<double> for_each_output(const std::vector<double>& given, std::int64_t outputs,
                                    double otherwise) {
  if (std::ssize(given) == outputs) return given;
  return std::vector<double>(static_cast<std::size_t>(outputs), given.empty() ? otherwise : given.front());
}

}  // namespace

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
  return cat(outer.kind == OuterKind::none ? "" : cat(", strategy.outer.kind = \"", outer.kind, "\""),
             streaming.eager ? ", strategy.eager = true" : "");
}

StrategyKind Config::strategy_kind() const {
  return std::visit([](const auto& chosen) { return chosen.kind(); }, strategy);
}

std::string Config::state_kind() const {
  return cat("strategy.kind = \"", strategy_kind(), "\"",
             std::visit([](const auto& chosen) { return chosen.state_kind(); }, strategy));
}

OutputUnits::OutputUnits(const Config& config)
    : binary_(config.model.loss == ModelLoss::binary),
      scale_(for_each_output(config.data.target_std, config.model.outputs, 1.0)),
      shift_(for_each_output(config.data.target_mean, config.model.outputs, 0.0)) {
  require(!config.model.has_classes(), "classes have no units");
}

bool OutputUnits::is_scaled() const {
  return std::ranges::any_of(scale_, [](double value) { return value != 1.0; }) ||
         std::ranges::any_of(shift_, [](double value) { return value != 0.0; });
}

double OutputUnits::value(float output, std::size_t number) const {
  return static_cast<double>(output) * scale_[number] + shift_[number];
}

std::vector<std::string> kinds_with(bool DataKindKeys::*group) {
  std::vector<std::string> words;
  for (const DataKindKeys& kind : data_kinds)
    if (kind.*group) words.emplace_back(kind.word);
  return words;
}

}  // namespace flotilla
