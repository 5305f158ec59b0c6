// SPDX-License-Identifier: Apache-2.0
#include "src/config/optimizers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

rules::Adam adam(const OptimizerConfig& config) {
  return {.beta1 = static_cast<float>(config.beta1),
          .beta2 = static_cast<float>(config.beta2),
          .epsilon = static_cast<float>(config.epsilon)};
}

template <class Rule>
UpdateRule with_momentum(const OptimizerConfig& config) {
  return Rule{static_cast<float>(config.momentum)};
}

const std::vector<OptimizerDescriptor>& all_optimizers() {
  static const std::vector<OptimizerDescriptor> all = {
      {.kind = OptimizerKind::sgd,
       .keys = {"decay"},
       .rule = [](const OptimizerConfig&) -> UpdateRule { return rules::Sgd{}; },
       .descends = true},
      {.kind = OptimizerKind::momentum,
       .keys = {"momentum", "decay"},
       .rule = with_momentum<rules::Momentum>,
       .descends = true},
      {.kind = OptimizerKind::nesterov,
       .keys = {"momentum", "decay"},
       .rule = with_momentum<rules::Nesterov>,
       .descends = true},
      {.kind = OptimizerKind::lars,
       .keys = {"momentum", "lars_coefficient"},
       .rule = with_momentum<rules::Lars>,
       .needs_norms = true},
      {.kind = OptimizerKind::lamb,
       .keys = {"beta1", "beta2", "epsilon"},
       .rule = [](const OptimizerConfig& config) -> UpdateRule {
         return rules::LambDirection{adam(config), {}};
       },
       .needs_norms = true},
      {.kind = OptimizerKind::adam,
       .keys = {"beta1", "beta2", "epsilon", "decay"},
       .rule = [](const OptimizerConfig& config) -> UpdateRule { return adam(config); }},
      {.kind = OptimizerKind::adamw,
       .keys = {"beta1", "beta2", "epsilon"},
       .rule = [](const OptimizerConfig& config) -> UpdateRule { return adam(config); },
       .decouples_decay = true},
      {.kind = OptimizerKind::adagrad,
       .keys = {"epsilon", "decay"},
       .rule = [](const OptimizerConfig& config) -> UpdateRule {
         return rules::Adagrad{static_cast<float>(config.epsilon)};
       }},
  };
  return all;
}

}  // namespace

std::span<const OptimizerDescriptor> optimizers() {
  return all_optimizers();
}

const OptimizerDescriptor& descriptor_of(OptimizerKind kind) {
  const auto found = std::ranges::find(all_optimizers(), kind, &OptimizerDescriptor::kind);
  require(found != all_optimizers().end(), "an unknown optimizer");
  return *found;
}

std::vector<std::string> optimizers_with(std::string_view key) {
  std::vector<std::string> words;
  for (const OptimizerDescriptor& each : all_optimizers())
    if (std::ranges::count(each.keys, key) > 0) words.emplace_back(word(each.kind));
  return words;
}

Decay update_decay(const OptimizerConfig& config) {
  return descriptor_of(config.kind).decouples_decay ? Decay::decoupled : config.decay;
}

UpdateRule update_rule(const OptimizerConfig& config) {
  return descriptor_of(config.kind).rule(config);
}

bool needs_norms(const OptimizerConfig& config) {
  return descriptor_of(config.kind).needs_norms;
}

RowRule row_rule(const OptimizerConfig& config) {
  if (needs_norms(config)) {
    std::vector<std::string_view> others;
    for (const OptimizerDescriptor& each : all_optimizers())
      if (!each.needs_norms) others.push_back(word(each.kind));
    const std::string_view last = others.back();
    others.pop_back();
    throw UserError(cat("optimizer.kind = \"", config.kind,
                        "\" needs norms of whole tensors, which tables of rows do not have; use ",
                        fmt::format("{} or {}", fmt::join(others, ", "), last)));
  }
  return {.update = update_rule(config),
          .decay = update_decay(config),
          .weight_decay = static_cast<float>(config.weight_decay)};
}

std::vector<std::string> slot_names(const RowRule& rule) {
  const auto names = rule_state_names(rule.update);
  return {names.begin(), names.end()};
}

std::optional<RateFactor> rate_factor(const std::string& text) {
  const std::size_t blank = text.find_last_of(' ');
  if (blank == std::string::npos) return std::nullopt;
  const std::size_t end = text.find_last_not_of(' ', blank);
  const char* const last = text.data() + text.size();
  RateFactor factor{.pattern = text.substr(0, end + 1)};
  const auto [stop, error] = std::from_chars(text.data() + blank + 1, last, factor.factor);
  const bool good = end != std::string::npos && error == std::errc{} && stop == last &&
                    std::isfinite(factor.factor) && factor.factor > 0.0;
  return good ? std::optional(factor) : std::nullopt;
}

}  // namespace flotilla
