// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/report/metrics_reader.hpp"
#include "src/report/run_record.hpp"

namespace flotilla::report {

/// Makes the record of a run from the lines of metrics.jsonl, in memory that their number does not change.
/// For a run that was resumed the file holds no steps beyond the checkpoint (MetricsFile): steps ascend.
class RunBuilder {
 public:
  void take(const MetricsLine& line);
  /// Puts what was read from the lines into the record.
  void finish(RunRecord& record);

 private:
  void start(const nlohmann::json& line);
  void step(const StepLine& line);
  Reduction& series_of(std::size_t step_key);
  void add_phases(const StepLine& line);
  void add_straggler(const StepLine& line, double seconds);
  void validation(const nlohmann::json& line);
  void checkpoint(const nlohmann::json& line);
  void end(const nlohmann::json& line);
  void begin_attempt(double time);
  Knot knot_at(double step, double time) const;

  std::map<std::string, Reduction, std::less<>> series_;
  std::array<Reduction*, step_keys.size()> step_series_{};  ///< Null: no line had the key yet
  PhaseReduction phases_;
  Thinning<Knot> knots_;
  Thinning<Mark> checkpoints_;
  /// A worker that was late in several reports one after another.
  struct Late {
    std::int64_t rank = 0;
    double step = 0.0;
    double until = 0.0;
    double cost_s = 0.0;
  };
  std::vector<Late> late_;
  std::vector<Mark> others_;
  RunFacts facts_;
  RunTotals totals_;

  Knot last_;  ///< Knot at the last line that counts
  /// The run since a start or a resume.
  struct Attempt {
    double time = 0.0;     ///< When it began, or of its first line
    double seconds = 0.0;  ///< Time of running before it
  };
  std::optional<Attempt> attempt_;
  double seconds_ = 0.0;  ///< Time of running, at the last line
  double trained_s_ = 0.0;
  double trained_samples_ = 0.0;
  double exposed_s_ = 0.0;
};

/// @throws UserError if the folder holds no metrics.jsonl
void check_is_run(const std::string& folder);

/// @throws UserError if the folder holds no run, or one that has not reported a step
void check_has_step(const std::string& folder);

/// Reads metrics.jsonl, failure.json, evaluation.json and deck.toml of a run's folder. The run may be under
/// way. Damaged lines are left out, with a warning that counts them.
/// @throws UserError if the folder holds no run, or one that has not reported a step
RunRecord read_run(const std::string& folder, const std::string& name);

/// Reads several runs.
/// @throws UserError as read_run does, and if a run is given twice
std::vector<RunRecord> read_runs(const std::vector<std::string>& folders);

/// Names for folders: as many of the last parts of a path as distinguish it from the others.
std::vector<std::string> unique_names(const std::vector<std::string>& folders);

}  // namespace flotilla::report
