// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/config/values.hpp"

namespace flotilla::config {

/// A published variant of local SGD, as the keys that it sets where they are not given.
struct Preset {
  std::string name;    ///< "diloco"
  std::string source;  ///< "Douillard et al. 2023, arXiv 2311.08105"
  std::vector<std::pair<std::string, Value>> keys;
};

std::span<const Preset> presets();
std::vector<std::string> preset_names();
/// All of them, with their sources.
std::string presets_help();

}  // namespace flotilla::config
