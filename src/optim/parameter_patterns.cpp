// SPDX-License-Identifier: Apache-2.0
#include "src/optim/parameter_patterns.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <set>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/optimizers.hpp"
#include "src/config/suggestions.hpp"
#include "src/config/values.hpp"

namespace flotilla {

namespace {

constexpr std::size_t max_suggestions = 3;

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

bool any_matches(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return matches(pattern, name); });
}

/// "layer1.0.bn1" of "layer1.0.bn1.running_mean".
std::string norm_of(const std::string& statistic) {
  return statistic.substr(0, statistic.rfind('.'));
}

RateFactor factor_in(const std::string& entry) {
  const auto factor = rate_factor(entry);
  require(factor.has_value(), "optimizer.rates holds \"", entry, "\"");
  return *factor;
}

std::vector<std::string> names_of(const ArenaLayout& parameters) {
  std::vector<std::string> names;
  for (const Slice& slice : parameters.slices()) names.push_back(slice.name);
  return names;
}

std::vector<std::string> norms_of(const ArenaLayout& statistics) {
  std::set<std::string> norms;
  for (const Slice& slice : statistics.slices()) norms.insert(norm_of(slice.name));
  return {norms.begin(), norms.end()};
}

/// Names, and the patterns of all below a name, that are similar to `pattern`.
std::string similar(const std::string& pattern, const std::vector<std::string>& names) {
  std::set<std::string> candidates(names.begin(), names.end());
  for (const std::string& name : names)
    for (std::size_t dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
      candidates.insert(name.substr(0, dot) + ".*");
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : candidates)
    if (const std::size_t distance =
            candidate == pattern + ".*" ? 0 : config::edit_distance(pattern, candidate);
        distance <= pattern.size() / 2)
      near.emplace_back(distance, candidate);
  std::ranges::sort(near);
  std::string text;
  for (std::size_t i = 0; i < std::min(near.size(), max_suggestions); ++i)
    text += cat(i == 0 ? "; did you mean " : " or ", config::quoted(near[i].second));
  return cat(text, text.empty() ? "; the first is " : "? The first is ", config::quoted(names.front()),
             ", the last ", config::quoted(names.back()));
}

void check_each(const std::string& key, const std::vector<std::string>& patterns, const char* what,
                const std::vector<std::string>& names) {
  for (const std::string& pattern : patterns) {
    if (names.empty()) throw UserError(cat(key, ": this model has no ", what));
    if (std::ranges::none_of(names, [&](const std::string& name) { return matches(pattern, name); }))
      throw UserError(cat(key, ": ", config::quoted(pattern), " names no ", what, " of this model",
                          similar(pattern, names)));
  }
}

}  // namespace

bool is_frozen(const OptimizerConfig& config, const std::string& parameter) {
  return any_matches(config.frozen, parameter);
}

float rate_factor_of(const OptimizerConfig& config, const std::string& parameter) {
  double factor = 1.0;
  for (const std::string& entry : config.rates)
    if (const RateFactor rate = factor_in(entry); matches(rate.pattern, parameter)) factor = rate.factor;
  return static_cast<float>(factor);
}

std::vector<bool> frozen_slices(const OptimizerConfig& config, const ArenaLayout& parameters) {
  std::vector<bool> frozen;
  for (const Slice& slice : parameters.slices()) frozen.push_back(is_frozen(config, slice.name));
  return frozen;
}

std::vector<bool> fixed_slices(const ModelConfig& config, const ArenaLayout& statistics) {
  std::vector<bool> fixed;
  for (const Slice& slice : statistics.slices())
    fixed.push_back(any_matches(config.fixed_statistics, norm_of(slice.name)));
  return fixed;
}

void check_patterns(const Config& config, const ArenaLayout& parameters, const ArenaLayout& statistics) {
  const std::vector<std::string> names = names_of(parameters);
  check_each("optimizer.frozen", config.optimizer.frozen, "parameter", names);
  std::vector<std::string> rated;
  for (const std::string& entry : config.optimizer.rates) rated.push_back(factor_in(entry).pattern);
  check_each("optimizer.rates", rated, "parameter", names);
  check_each("model.fixed_statistics", config.model.fixed_statistics, "batch norm", norms_of(statistics));
  if (std::ranges::all_of(names, [&](const std::string& name) { return is_frozen(config.optimizer, name); }))
    throw UserError("optimizer.frozen names all parameters: nothing is left to train");
}

std::vector<std::string> describe_patterns(const Config& config, const ArenaLayout& parameters,
                                           const ArenaLayout& statistics) {
  std::vector<std::string> lines;
  std::int64_t trained = 0;
  std::int64_t tensors = 0;
  for (const Slice& slice : parameters.slices()) {
    if (is_frozen(config.optimizer, slice.name)) continue;
    trained += slice.shape.size();
    ++tensors;
  }
  if (!config.optimizer.frozen.empty())
    lines.push_back(cat("trains       ", trained, " of ", parameters.values(), " parameters, ", tensors,
                        " of ", parameters.slices().size(), " tensors (optimizer.frozen)"));
  for (const std::string& entry : config.optimizer.rates) {
    const RateFactor rate = factor_in(entry);
    const std::vector<std::string> names = names_of(parameters);
    const auto count =
        std::ranges::count_if(names, [&](const auto& name) { return matches(rate.pattern, name); });
    lines.push_back(cat("rates        learning rate × ", rate.factor, " for the ", count,
                        count == 1 ? " tensor " : " tensors ", rate.pattern));
  }
  if (!config.model.fixed_statistics.empty()) {
    const std::vector<std::string> norms = norms_of(statistics);
    const auto count = std::ranges::count_if(
        norms, [&](const auto& name) { return any_matches(config.model.fixed_statistics, name); });
    lines.push_back(cat("statistics   of ", count, " of ", norms.size(), " batch norms are fixed"));
  }
  return lines;
}

}  // namespace flotilla
