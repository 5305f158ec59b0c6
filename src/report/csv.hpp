// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla::report {

/// Writes the lines of one event of metrics.jsonl as a table (RFC 4180): a header with every key that occurs,
/// in the order in which they first do, and a row for each line, numbers as they are written there.
/// @returns the number of rows; nothing is written if it is 0
/// @throws UserError if a file cannot be read or written
std::int64_t write_csv(const std::string& metrics, const std::string& event, const std::string& output);

}  // namespace flotilla::report
