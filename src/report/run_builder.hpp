// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/report/metrics_reader.hpp"
#include "src/report/run_record.hpp"

namespace flotilla::report {

/// Makes the record of a run from the lines of metrics.jsonl, in memory that their number does not change. Of
/// an attempt that was resumed the file holds no steps behind the checkpoint (MetricsFile): steps ascend.
class RunBuilder {
 public:
  void take(const MetricsLine& line);
  /// Puts what the lines told into the record.
  void finish(RunRecord& record);

 private:
  void start(const nlohmann::json& line);
  void step(const StepLine& line);
  void add_phases(const StepLine& line);
  void add_straggler(const StepLine& line, double seconds);
  void validation(const nlohmann::json& line);
  void checkpoint(const nlohmann::json& line);
  void end(const nlohmann::json& line);
  void begin_attempt(double time);
  Knot knot_at(double step, double time) const;

  std::map<std::string, Reduction, std::less<>> series_;
  Reduction* losses_ = &series_["step.loss"];
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

  Knot last_;                     ///< At the last line that counts
  double attempt_time_ = 0.0;     ///< When it began, or its first line
  double attempt_seconds_ = 0.0;  ///< Of running before it
  bool attempt_begun_ = false;
  double seconds_ = 0.0;  ///< Of running, at the last line
  double trained_s_ = 0.0;
  double trained_samples_ = 0.0;
  double exposed_s_ = 0.0;
};

}  // namespace flotilla::report
