// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
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

/// failure.json of a run's folder. Empty where there is none of Flotilla's, or none that was written since
/// `since_s` (seconds since 1970).
std::optional<Failure> read_failure(const std::string& folder, double since_s = 0.0);

/// Writes the line to stderr with one system call, and folder/failure.json if a folder is given. Never
/// throws.
void report_failure(const Failure& failure, const std::string& folder) noexcept;

}  // namespace flotilla
