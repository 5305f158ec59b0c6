// SPDX-License-Identifier: Apache-2.0
#include "src/commands/output_files.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/data/staging/stage_plan.hpp"

namespace flotilla {

namespace fs = std::filesystem;

void check_ending(const std::string& output, std::initializer_list<std::string_view> endings,
                  std::string_view what, std::string_view more) {
  const std::string ending = fs::path(output).extension().string();
  if (ending.empty() || std::ranges::find(endings, ending) != endings.end()) return;
  std::string allowed;
  for (const std::string_view each : endings) allowed += cat(allowed.empty() ? "" : " or ", each);
  throw UserError(cat("cannot write ", what, " as '", output, "': give a name that ends in ", allowed, more));
}

void check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs) {
  std::set<fs::path> names;
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    check_replaced_file(output, inputs);
    std::error_code error;
    const fs::path name = fs::weakly_canonical(output, error);
    if (!error && !names.insert(name).second)
      throw UserError(cat("cannot write '", output, "' twice: give each output a name of its own"));
  }
}

void check_outputs(const std::vector<std::string>& outputs, const Config& config,
                   const DataSourceConfig& source, std::vector<std::string> others) {
  std::error_code error;
  // Only an existing file can be one that is read, and listing those may take a while.
  const bool replaces =
      std::ranges::any_of(outputs, [&](const std::string& path) { return fs::exists(path, error); });
  others.push_back(config.model.initial_weights);
  if (replaces && config.data.keys().files) {
    const std::vector<std::string> files = files_of(config.data, source, config.model.classes);
    others.insert(others.end(), files.begin(), files.end());
    others.push_back(config.data.class_names);
  }
  check_outputs(outputs, others);
}

}  // namespace flotilla
