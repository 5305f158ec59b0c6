// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// failure.json and the one line on stderr that begins with "flotilla:".
struct Failure {
  int rank = 0;
  int ranks = 1;
  std::string host{};
  std::int64_t step = -1;  ///< −1: before the first
  std::string what{};
  int exit_code = 0;
};

/// "flotilla: rank 3 on node7, step 120: …" — just "flotilla: …" if the step is −1 and there is one rank.
std::string failure_line(const Failure& failure);

/// Writes the line to stderr with one system call, and folder/failure.json if a folder is given. Never
/// throws.
void report_failure(const Failure& failure, const std::string& folder) noexcept;

}  // namespace flotilla
