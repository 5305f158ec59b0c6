// SPDX-License-Identifier: Apache-2.0
#include "src/compare/run_figures.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

using MetricsLine = nlohmann::json;

std::optional<double> number_at(const MetricsLine& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

/// Adds up the lines of metrics.jsonl in their order.
class Adder {
 public:
  Adder(RunFigures& figures, std::optional<double> target) : figures_(figures), target_(target) {}

  void add(const MetricsLine& line) {
    const std::string event = line.value("event", "");
    if (event == "start") add_start(line);
    if (event == "step") add_step(line);
    if (event == "validation") add_validation(line);
    if (event == "end") figures_.end = line.value("reason", "");
  }

  void finish() {
    const double samples = std::max(1.0, static_cast<double>(figures_.samples));
    figures_.bytes_per_sample = bytes_ * static_cast<double>(figures_.workers) / samples;
    if (figures_.seconds > 0.0) figures_.exposed_share = exposed_s_ / figures_.seconds;
    if (reached_step_ >= 0) figures_.target_s = reached_s_;
  }

 private:
  void add_start(const MetricsLine& line) {
    figures_.device = line.value("device", "");
    figures_.workers = line.value("workers", std::int64_t{0});
    figures_.global_batch = line.value("global_batch_size", std::int64_t{0});
    figures_.end.clear();
  }

  void add_step(const MetricsLine& line) {
    const auto step = line.value("step", std::int64_t{0});
    const auto steps = static_cast<double>(step - figures_.steps);
    const double step_s = number_at(line, "step_s").value_or(0.0);
    // A validation between two reports: at their pace.
    if (reached_step_ > figures_.steps)
      reached_s_ += static_cast<double>(std::min(step, reached_step_) - figures_.steps) * step_s;
    figures_.samples += (step - figures_.steps) * figures_.global_batch;
    figures_.steps = step;
    figures_.seconds += steps * step_s;
    exposed_s_ += steps * number_at(line, "exposed_comm_s").value_or(0.0);
    bytes_ += steps * number_at(line, "sent_bytes").value_or(0.0);
    const auto loss = number_at(line, "loss_mean");
    figures_.loss = loss ? *loss : number_at(line, "loss").value_or(0.0);
  }

  void add_validation(const MetricsLine& line) {
    figures_.metric = line.contains("auc") ? "auc" : "accuracy_top1";
    figures_.last = number_at(line, figures_.metric.c_str());
    if (!figures_.last) return;
    figures_.best = std::max(figures_.best.value_or(*figures_.last), *figures_.last);
    if (reached_step_ >= 0 || !target_ || *figures_.last < *target_) return;
    reached_step_ = line.value("step", std::int64_t{0});
    reached_s_ = figures_.seconds;
  }

  RunFigures& figures_;
  std::optional<double> target_;
  double exposed_s_ = 0.0;
  double bytes_ = 0.0;
  std::int64_t reached_step_ = -1;  ///< Of the validation that reached the target; −1: none did
  double reached_s_ = 0.0;
};

/// The lines of a resolved deck on which a comparison depends.
std::vector<std::string> compared_lines(const std::string& deck) {
  std::vector<std::string> lines;
  std::istringstream stream(deck);
  for (std::string line; std::getline(stream, line);)
    if (!line.starts_with("time_limit_s ") && !line.starts_with("stop_margin_s ")) lines.push_back(line);
  return lines;
}

}  // namespace

RunFigures figures_of(std::string_view metrics, std::optional<double> target) {
  RunFigures figures;
  Adder adder(figures, target);
  while (!metrics.empty()) {
    const std::size_t length = std::min(metrics.find('\n'), metrics.size());
    const MetricsLine line = MetricsLine::parse(metrics.substr(0, length), nullptr, false);
    if (line.is_object()) adder.add(line);
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
  const std::string& end = figures.end;
  const bool ended = end == "done" || end == "target reached" || end == "stopped early" || end == "diverged";
  return ended ? Progressed::ended : Progressed::begun;
}

RunFigures read_figures(const std::string& folder, std::optional<double> target) {
  return figures_of(File::open(folder + "/metrics.jsonl").text(), target);
}

}  // namespace flotilla
