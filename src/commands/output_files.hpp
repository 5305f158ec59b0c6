// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

/// Refuses to replace what a command reads by what it writes: check_replaced_file() for each of `outputs`
/// that is not empty, with the files of `source`, a source of config.data, that of the classes' names, the
/// initial weights and `others`. @throws UserError also if two outputs are one file
void check_outputs(const std::vector<std::string>& outputs, const Config& config,
                   const DataSourceConfig& source, std::vector<std::string> others);

/// Refuses to replace one of `inputs`, a checkpoint that a run resumes from, or one of two outputs by the
/// other.
/// @throws UserError
void check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

}  // namespace flotilla
