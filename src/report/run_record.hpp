// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "src/report/reduction.hpp"

namespace flotilla::report {

/// The phases of a step, in the order in which they are stacked. "rest": what no other phase covers (stalls,
/// emulated pauses).
inline constexpr std::array<std::string_view, 6> phase_names = {
    "input", "forward", "backward", "exposed communication", "optimizer", "rest"};

using PhaseReduction = MeanReduction<phase_names.size()>;

/// The progress of a run after a step.
struct Knot {
  double step = 0.0;
  double seconds = 0.0;  ///< Time of running; the time between attempts is left out
  double epochs = 0.0;
  double samples = 0.0;
};

enum class MarkKind { checkpoint, resume, straggler, fault };

/// Something that happened at a step, or from one step to another.
struct Mark {
  MarkKind kind{};
  double step = 0.0;
  double until = 0.0;  ///< End of the interval, at least `step`
  std::string text{};
};

/// A validation that was better than all before it.
struct Improvement {
  double value = 0.0;
  Knot at;
};

/// Facts about a run from its last start.
struct RunFacts {
  std::string device{};
  std::string all_reduce{};
  std::int64_t workers = 0;
  std::int64_t steps_per_epoch = 0;
  std::int64_t global_batch = 0;
  std::int64_t parameters = 0;
  std::int64_t validation_samples = 0;  ///< Of the last validation; 0: not known
};

inline constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

/// Figures of a run as a whole; no_value where there is none.
struct RunTotals {
  std::string figure{};  ///< Key of what validations report: "auc", "r2", "accuracy_top1" …; empty: none
  std::vector<Improvement> improvements{};  ///< Improvements of that figure
  double last_figure = no_value;
  std::string gap_of{};   ///< `figure`, or "loss" where training does not report it
  double gap = no_value;  ///< By how much training was better than the last validation, since the one before
  double best_loss = no_value;      ///< Best loss of the validations
  double training_loss = no_value;  ///< The last
  Knot end{};                       ///< Progress of the run
  double samples_per_s = 0.0;       ///< Mean over the steps
  double sent_bytes = 0.0;          ///< Bytes sent by rank 0
  double exposed_share = 0.0;       ///< Share of the steps' time that was waited for communication
  double memory_bytes = 0.0;        ///< The largest that was reported
  double last_time = 0.0;           ///< Time of the last line, seconds since 1970
  std::int64_t step_lines = 0;
  std::string ending{};  ///< "done", "time limit", …; "failed"; "not ended"
};

/// The key of a series' means, which a series has that was reduced.
inline std::string mean_of(std::string_view series) {
  return "mean " + std::string(series);
}

/// The key of the standard deviations over runs that differ in the seed only, beside the means of a series.
inline std::string deviation_of(std::string_view series) {
  return "deviation " + std::string(series);
}

/// A run as described by its folder.
struct RunRecord {
  std::string name{};  ///< Unique among the runs of a report
  std::string folder{};
  std::int64_t seeds = 1;  ///< Runs that this one is the mean of
  RunFacts facts{};
  std::map<std::string, std::vector<Point>, std::less<>> series{};  ///< By "step.loss", "validation.auc" …
  /// Seconds of a step; empty: the run does not report them.
  std::vector<PhaseReduction::Means> phases{};
  std::vector<Knot> knots{};
  std::vector<Mark> marks{};
  RunTotals totals{};
  std::string evaluation{};             ///< JSON of `flotilla evaluate`: what the page shows; empty: none
  std::string deck{};                   ///< The text of deck.toml; empty: there is none
  std::vector<std::string> warnings{};  ///< Messages about what could not be read
};

}  // namespace flotilla::report
