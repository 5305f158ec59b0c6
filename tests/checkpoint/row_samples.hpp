// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "src/checkpoint/row_file.hpp"

namespace flotilla {

/// A table with its rows.
struct Rows {
  RowTable table;
  std::vector<std::uint64_t> keys;  ///< Ascending
  std::vector<float> values;
  std::vector<std::vector<float>> slots;
};

/// `table` filled: keys spread over all 64 bits, values and state that occur once; not a number, infinity and
/// negative zero among them.
Rows sample_rows(const RowTable& table, std::uint64_t seed = 0);

/// The rows for server `server` of `servers`.
Rows share_of(const Rows& rows, std::size_t server, std::size_t servers);

/// Writes a file of tables, `piece` rows of each at a time, one table after the other.
CheckpointPart write_rows(const std::string& path, const std::vector<Rows>& tables,
                          const CheckpointState& state,
                          std::size_t piece = std::numeric_limits<std::size_t>::max());

Rows read_rows(TableSource& source, std::size_t table);

/// Whether table and rows are equal, values bit for bit.
bool equal(const Rows& a, const Rows& b);

/// A checkpoint of sample_snapshot(step) in `folder` with the parts of servers that share `tables`. Returns
/// its path.
std::string save_with_servers(const std::string& folder, std::int64_t step, const std::vector<Rows>& tables,
                              std::size_t servers);

}  // namespace flotilla
