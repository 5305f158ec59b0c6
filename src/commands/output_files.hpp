// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

/// @throws UserError where the name of an output file has an ending that is none of `endings` and promises
/// another format. @param what with its article: "an HDF5 file"  @param text appended to the sentence
void check_ending(const std::string& output, std::initializer_list<std::string_view> endings,
                  std::string_view what, std::string_view more = {});

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
