// SPDX-License-Identifier: Apache-2.0
#include "src/compare/run_figures.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <variant>
#include <vector>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/metrics_lines.hpp"

namespace flotilla {

namespace {

/// Adds up the lines of metrics.jsonl in their order.
class Adder {
 public:
  Adder(RunFigures& figures, std::optional<double> target) : figures_(figures), target_(target) {}

  void add(const StartReport& report) {
    figures_.device = report.device;
    figures_.workers = report.workers;
    figures_.global_batch = report.global_batch_size;
    figures_.end.clear();
    figures_.data = report.data;
  }

  void add(const StepReport& report) {
    const auto steps = static_cast<double>(report.step - figures_.steps);
    // A validation between two reports: at their pace.
    if (reached_step_ > figures_.steps)
      reached_s_ +=
          static_cast<double>(std::min(report.step, reached_step_) - figures_.steps) * report.step_s;
    samples_ += steps * static_cast<double>(figures_.global_batch);
    figures_.steps = report.step;
    figures_.seconds += steps * report.step_s;
    exposed_s_ += steps * report.exposed_comm_s;
    bytes_ += steps * static_cast<double>(report.sent_bytes);
    figures_.loss = report.loss_mean.value_or(report.loss);
  }

  /// Adds a validation by the figure that train.target refers to: with train.average_decay that of the
  /// averaged weights.
  void add(const ValidationReport& report) {
    const Metric& metric = compared_metric(report.figures);
    double figure = std::nan("");
    for (const Figures* figures : {&report.figures, &report.averages})
      if (const auto found = figures->find(metric.key); found != figures->end()) figure = found->second;
    figures_.metric = metric.key;
    figures_.last.reset();
    if (!std::isfinite(figure)) return;
    figures_.last = figure;
    figures_.best = std::max(figures_.best.value_or(figure), figure);
    if (reached_step_ >= 0 || !target_ || figure < *target_) return;
    reached_step_ = report.step;
    reached_s_ = figures_.seconds;
  }

  void add(const CheckpointReport& /*report*/) {}
  void add(const EndReport& report) { figures_.end = report.reason; }

  void finish() {
    figures_.samples =
        static_cast<std::int64_t>(std::clamp(samples_, 0.0, 0x1p62));  // counts of damaged lines
    figures_.bytes_per_sample = bytes_ * static_cast<double>(figures_.workers) / std::max(1.0, samples_);
    if (figures_.seconds > 0.0) figures_.exposed_share = exposed_s_ / figures_.seconds;
    if (reached_step_ >= 0) figures_.target_s = reached_s_;
  }

 private:
  RunFigures& figures_;
  std::optional<double> target_;
  double samples_ = 0.0;
  double exposed_s_ = 0.0;
  double bytes_ = 0.0;
  std::int64_t reached_step_ = -1;  ///< Step of the validation that reached the target; −1: none did
  double reached_s_ = 0.0;
};

/// The lines of a resolved deck on which a comparison depends.
std::vector<std::string> compared_lines(const std::string& deck) {
  std::vector<std::string> lines;
  std::istringstream stream(deck);
  for (std::string line; std::getline(stream, line);)
    if (!line.starts_with("time_limit_s ") && !line.starts_with("stop_margin_s ") && !line.starts_with('#'))
      lines.push_back(line);
  return lines;
}

}  // namespace

RunFigures figures_of(std::string_view metrics, std::optional<double> target) {
  RunFigures figures;
  Adder adder(figures, target);
  while (!metrics.empty()) {
    const std::size_t length = std::min(metrics.find('\n'), metrics.size());
    if (const auto read = read_metrics_line(metrics.substr(0, length)))
      std::visit([&](const auto& report) { adder.add(report); }, read->report);
    metrics.remove_prefix(std::min(length + 1, metrics.size()));
  }
  adder.finish();
  return figures;
}

Progressed progress_in(const std::string& folder, const std::string& resolved_deck, std::int64_t workers) {
  if (!is_there(folder + "/deck.toml") || !is_there(folder + "/metrics.jsonl")) return Progressed::not_begun;
  const std::vector<std::string> there = compared_lines(File::open(folder + "/deck.toml").text());
  const std::vector<std::string> wanted = compared_lines(resolved_deck);
  if (there != wanted) {
    const auto [before, now] = std::mismatch(there.begin(), there.end(), wanted.begin(), wanted.end());
    throw UserError(cat(folder, " holds a run of another deck (", before == there.end() ? "" : *before,
                        ", now ", now == wanted.end() ? "" : *now,
                        "): remove that folder, or give the plan another output"));
  }
  const RunFigures figures = read_figures(folder, std::nullopt);
  if (figures.workers > 0 && figures.workers != workers)
    throw UserError(cat(folder, " holds a run of ", figures.workers, " worker",
                        figures.workers == 1 ? "" : "s", ", and this job has ", workers,
                        ": start as many ranks as give ", figures.workers,
                        ", or give the plan another output"));
  const bool ended = !figures.end.empty() && exit_code_of_reason(figures.end) != exit_stopped;
  return ended ? Progressed::ended : Progressed::begun;
}

void check_data(const std::string& folder, const DataIdentities& data, const std::string& where,
                DataIdentities& known) {
  for (const auto& [set, identity] : data) {
    const std::string& other = known.emplace(set, identity).first->second;
    if (other != identity)
      throw UserError(cat(folder, " holds a run on other samples (", set, ": ", identity, "; ", other, " ",
                          where, "): remove that folder, or give the plan another output"));
  }
}

RunFigures read_figures(const std::string& folder, std::optional<double> target) {
  return figures_of(File::open(folder + "/metrics.jsonl").text(), target);
}

}  // namespace flotilla
