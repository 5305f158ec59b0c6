// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/observe/console.hpp"
#include "src/observe/metrics_lines.hpp"

namespace flotilla {

/// News of a run.
struct RunNews {
  std::vector<std::string> lines;  ///< As the run's own console has them
  std::string waiting;             ///< The event that is waited for; empty: the run goes on
  double quiet_s = 0.0;            ///< Time since the run's last line if a line is waited for, otherwise 0
  std::string live;                ///< live_line() of the last report; empty: none since the start
  std::optional<int> exit_code;    ///< Exit code of the run, once it has ended and left its folder
};

/// Follows a run by the files in its folder, from any host that sees them.
class RunWatch {
 public:
  /// @param folder run.output; need not be there yet
  /// @param jobs of the user, for what a run waits for: slurm_jobs_of_user()
  RunWatch(std::string folder, std::function<std::vector<std::string>()> jobs);

  /// The lines written since the last call. The first call returns only the last line of each kind.
  /// @param columns for `live`
  /// @param now_s seconds since 1970
  RunNews look(int columns, double now_s);

 private:
  void read_new(const std::function<void(std::string_view)>& use);
  std::vector<ReadReport> read_first();
  void take(const ReadReport& read);
  std::string what_is_missing(double now_s, double& quiet_s);
  std::string queue();

  std::string folder_;
  std::function<std::vector<std::string>()> jobs_;
  std::int64_t read_bytes_ = 0;
  std::uint64_t file_id_ = 0;  ///< Another one is another run's file
  bool first_ = true;
  std::optional<StartReport> run_;
  double start_s_ = 0.0;
  std::optional<StepReport> step_;  ///< Last one since the start
  double line_s_ = 0.0;             ///< Time of the last line
  double interval_s_ = 0.0;         ///< Time between the last two lines
  std::optional<EndReport> end_;    ///< End of the last start
};

}  // namespace flotilla
