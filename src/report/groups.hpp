// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "src/report/run_record.hpp"

namespace flotilla::report {

/// Runs of one deck, each with another run.seed, and of equally many workers; or a run alone.
struct RunGroup {
  std::string name;                  ///< What the names of the runs have in common
  std::vector<std::size_t> members;  ///< Indices of the runs, ascending
};

/// Each run in one group, in the order of their first members.
std::vector<RunGroup> groups_of(const std::vector<RunRecord>& runs);

/// The record of a group as if it were a run: its series are means over the members at the steps that at
/// least two of them report, beside their standard deviations (deviation_of). Time is that of the member that
/// went furthest; totals hold what the members share.
RunRecord mean_record(const RunGroup& group, const std::vector<RunRecord>& runs);

/// A record for each group: the run itself, or the mean of several.
std::vector<RunRecord> folded(const std::vector<RunRecord>& runs);

}  // namespace flotilla::report
