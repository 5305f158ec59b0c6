// SPDX-License-Identifier: Apache-2.0
#include "src/config/presets.hpp"

#include "kernels/error.hpp"

namespace flotilla::config {

std::span<const Preset> presets() {
  const auto whole = [](std::int64_t number) { return Value(number); };
  const std::pair<std::string, Value> local = {"strategy.kind", std::string("local-sgd")};
  static const std::vector<Preset> all = {
      {"diloco",
       "Douillard et al. 2023, arXiv 2311.08105",
       {local,
        {"strategy.period", whole(500)},
        {"strategy.outer.kind", std::string("nesterov")},
        {"strategy.outer.learning_rate", 0.7},
        {"strategy.outer.momentum", 0.9}}},
      {"streaming-diloco",
       "Douillard et al. 2025, arXiv 2501.18512; there a fragment is three layers",
       {local,
        {"strategy.period", whole(100)},
        {"strategy.fragments", whole(4)},
        {"strategy.overlap_steps", whole(5)},
        {"strategy.mix", 0.5},
        {"strategy.wire", std::string("fp4")},
        {"strategy.outer.kind", std::string("nesterov")},
        {"strategy.outer.learning_rate", 0.7},
        {"strategy.outer.momentum", 0.9}}},
      {"slowmo",
       "Wang et al. 2020, arXiv 1910.00643, with FairScale's defaults",
       {local,
        {"strategy.period", whole(48)},
        {"strategy.outer.kind", std::string("momentum")},
        {"strategy.outer.learning_rate", 1.0},
        {"strategy.outer.momentum", 0.5}}},
      {"post-local",
       "Lin et al. 2020, arXiv 1808.07217; add begin_epoch, there the first fall of the learning rate",
       {local, {"strategy.period", whole(16)}, {"strategy.before_begin", std::string("all-reduce")}}}};
  return all;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& preset : presets()) names.push_back(preset.name);
  return names;
}

std::string presets_help() {
  std::string help = "A published variant, which sets keys that are not given";
  for (const Preset& preset : presets()) {
    help += cat("; ", quoted(preset.name), " (", preset.source, "):");
    for (const auto& [path, value] : preset.keys)
      help += cat(&path == &preset.keys[0].first ? " " : ", ", path.substr(path.find('.') + 1), " = ",
                  toml_text(value));
  }
  return help;
}

}  // namespace flotilla::config
