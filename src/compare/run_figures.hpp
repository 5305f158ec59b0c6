// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "src/observe/reporter.hpp"

namespace flotilla {

/// Figures of a whole run, resumes included, read from its metrics.jsonl.
struct RunFigures {
  std::string end{};      ///< Reason in the line "end" after the last step; empty: the run has not ended
  std::string device{};   ///< Device that computed
  DataIdentities data{};  ///< Data of the last start; without what an earlier version did not write
  std::int64_t workers = 0;
  std::int64_t global_batch = 0;
  std::int64_t steps = 0;
  std::int64_t samples = 0;  ///< Samples that training saw, over all workers
  std::string metric{};      ///< Metric of the next two: "accuracy_top1" (of averaged weights where there are
                         ///< some), of clicks "auc", of numbers "r2", of labels that are 0 or 1 "accuracy";
                         ///< empty: no validation
  std::optional<double> last{};      ///< Figure of the last validation
  std::optional<double> best{};      ///< Best figure of all validations
  double loss = 0.0;                 ///< Training loss at the last report
  double seconds = 0.0;              ///< Time of steps, without validation and checkpoints
  std::optional<double> target_s{};  ///< `seconds` at the first validation that reached the target
  double bytes_per_sample = 0.0;     ///< Bytes that worker 0 sent for each sample of its own
  double exposed_share = 0.0;        ///< Share of `seconds` that worker 0 waited for communication
  double samples_per_s() const { return seconds > 0.0 ? static_cast<double>(samples) / seconds : 0.0; }
};

/// Pure. @param metrics the text of metrics.jsonl; lines that no report wrote are left out  @param target of
/// RunFigures::metric
RunFigures figures_of(std::string_view metrics, std::optional<double> target);

/// The progress of a training in its folder.
enum class Progressed { not_begun, begun, ended };

/// Reads metrics.jsonl and deck.toml of a run's folder. Keys that say when a job stops may differ
/// (run.time_limit_s, run.stop_margin_s).
/// @param resolved_deck that the folder is to hold  @param workers of this job
/// @throws UserError if it holds a run of another deck, or one that other numbers of workers began
Progressed progress_in(const std::string& folder, const std::string& resolved_deck, std::int64_t workers);

/// Adds the data of a run to `known`.
/// @param folder of the run  @param where says what `known` is of in the message: "now"
/// @throws UserError if a data set of that name is known and holds other samples
void check_data(const std::string& folder, const DataIdentities& data, const std::string& where,
                DataIdentities& known);

/// The figures of a run's folder. @throws UserError if they cannot be read
RunFigures read_figures(const std::string& folder, std::optional<double> target);

}  // namespace flotilla
