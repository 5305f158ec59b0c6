// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/file_index.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/commands/value_statistics.hpp"

namespace flotilla {

/// A table of rows, over all files that hold rows of it.
struct TableSummary {
  RowTable table;
  ValueStatistics values;  ///< Of the rows, without the optimizer's state
};

/// The tables that a file and the servers' parts that it names hold. Missing or damaged files are left out,
/// with a message in `damage`.
std::vector<TableSummary> describe_tables(const FileIndex& index, std::vector<std::string>& damage);

}  // namespace flotilla
