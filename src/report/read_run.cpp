// SPDX-License-Identifier: Apache-2.0
#include "src/report/read_run.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/failure_report.hpp"
#include "src/observe/metrics.hpp"
#include "src/report/metrics_reader.hpp"

namespace flotilla::report {

namespace {

double number_of(const nlohmann::json& line, const char* key, double otherwise = no_value) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<double>() : otherwise;
}

/// 0 for a number that is not a count, as a damaged line may hold.
std::int64_t whole(double number) {
  return std::abs(number) < 1e15 ? static_cast<std::int64_t>(number) : 0;
}

std::int64_t count_of(const nlohmann::json& line, const char* key) {
  return whole(number_of(line, key, 0.0));
}

std::string text_of(const nlohmann::json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : std::string();
}

/// The series that are drawn as they are; the phases are summed up separately.
constexpr std::array drawn_keys = {step_key("accuracy_top1"), step_key("auc"),      step_key("learning_rate"),
                                   step_key("samples_per_s"), step_key("step_s"),   step_key("memory_bytes"),
                                   step_key("period"),        step_key("staleness")};

constexpr std::array phase_keys = {step_key("input_wait_s"), step_key("forward_s"), step_key("backward_s"),
                                   step_key("exposed_comm_s"), step_key("optimizer_s")};

/// The key of the figure by which runs are compared, of which more is better.
std::string_view figure_of(const nlohmann::json& validation) {
  Figures known;
  for (const Metric& metric : metrics())
    if (validation.contains(metric.key)) known.emplace(metric.key, 0.0);
  return compared_metric(known).key;
}

/// Puts the gap between training and validation into the totals: training is the mean of the reports between
/// the last two validations.
void add_gap(const RunRecord& record, RunTotals& totals) {
  const std::string_view figure = totals.figure;
  for (const std::string_view key : {figure, std::string_view("loss")}) {
    const std::string_view plain = key.starts_with("average_") ? key.substr(8) : key;
    const auto validation = record.series.find(cat("validation.", key));
    const auto means = record.series.find(cat(mean_of("step."), plain));
    const auto training = means != record.series.end() ? means : record.series.find(cat("step.", plain));
    if (key.empty() || validation == record.series.end() || training == record.series.end()) continue;
    const std::vector<Point>& points = validation->second;
    const double from = points.size() > 1 ? points[points.size() - 2].step : 0.0;
    double sum = 0.0;
    int count = 0;
    for (const Point& point : training->second)
      if (point.step > from && point.step <= points.back().step && std::isfinite(point.value)) {
        sum += point.value;
        ++count;
      }
    if (count == 0) continue;
    totals.gap_of = key;
    totals.gap = (key == "loss" ? -1.0 : 1.0) * (sum / count - points.back().value);
    return;
  }
}

/// More bands would hide the curves: those that cost most are kept.
constexpr std::size_t max_stragglers = 400;

}  // namespace

void RunBuilder::take(const MetricsLine& line) {
  if (line.is_step) return step(line.step);
  const auto json = nlohmann::json::parse(line.text, nullptr, false);
  if (!json.is_object()) return;
  const std::string event = text_of(json, "event");
  if (event == "start") start(json);
  totals_.last_time = std::max(totals_.last_time, number_of(json, "time", 0.0));
  if (event == "validation") validation(json);
  if (event == "checkpoint") checkpoint(json);
  if (event == "end") end(json);
}

void RunBuilder::begin_attempt(double time) {
  attempt_ = {.time = time, .seconds = seconds_};
}

void RunBuilder::start(const nlohmann::json& line) {
  const double first = number_of(line, "first_step", 0.0);
  begin_attempt(number_of(line, "time", 0.0));
  facts_ = {.device = text_of(line, "device"),
            .all_reduce = text_of(line, "all_reduce"),
            .workers = count_of(line, "workers"),
            .steps_per_epoch = count_of(line, "steps_per_epoch"),
            .global_batch = count_of(line, "global_batch_size"),
            .parameters = count_of(line, "parameters"),
            .validation_samples = facts_.validation_samples};
  totals_.ending.clear();
  const Knot begin = knot_at(std::max(first, last_.step), attempt_->time);
  if (first > 0.0)
    others_.push_back({MarkKind::resume, first, first,
                       cat("resumed after step ", whole(first), " with ", facts_.workers,
                           facts_.workers == 1 ? " worker" : " workers")});
  last_ = begin;
  if (knots_.items().empty()) knots_.add(begin);
}

Knot RunBuilder::knot_at(double step, double time) const {
  const double steps = step - last_.step;
  const Attempt attempt = attempt_.value_or(Attempt());
  const double seconds =
      std::isfinite(time) ? attempt.seconds + std::max(0.0, time - attempt.time) : seconds_;
  const double epochs =
      facts_.steps_per_epoch > 0 ? steps / static_cast<double>(facts_.steps_per_epoch) : 0.0;
  return {.step = step,
          .seconds = seconds,
          .epochs = last_.epochs + epochs,
          .samples = last_.samples + steps * static_cast<double>(facts_.global_batch)};
}

void RunBuilder::step(const StepLine& line) {
  const double number = line.number(step_key("step"));
  const double time = line.number(step_key("time"), no_value);
  if (!attempt_) begin_attempt(time);
  Knot knot = knot_at(number, time);
  if (facts_.steps_per_epoch > 0 && line.has(step_key("epoch")) && line.has(step_key("batch")))
    knot.epochs = line.number(step_key("epoch")) +
                  line.number(step_key("batch")) / static_cast<double>(facts_.steps_per_epoch);
  const double loss = line.number(step_key("loss"));
  series_of(step_key("loss")).add({number, line.number(step_key("loss_mean"), loss)});
  for (const std::size_t key : drawn_keys) {
    if (!line.has(key)) continue;
    series_of(key).add({number, line.values[key]});
  }
  const double steps = std::max(1.0, number - last_.step);
  const double seconds = steps * line.number(step_key("step_s"));
  if (line.has(step_key("forward_s"))) add_phases(line);
  add_straggler(line, seconds);
  if (std::isnan(loss) && (totals_.step_lines == 0 || !std::isnan(totals_.training_loss)))
    others_.push_back({MarkKind::fault, number, number, "the loss is not finite"});
  totals_.training_loss = loss;
  totals_.sent_bytes += steps * line.number(step_key("sent_bytes"));
  totals_.memory_bytes = std::max(totals_.memory_bytes, line.number(step_key("memory_bytes")));
  ++totals_.step_lines;
  trained_s_ += seconds;
  trained_samples_ += steps * static_cast<double>(facts_.global_batch);
  exposed_s_ += steps * line.number(step_key("exposed_comm_s"));
  last_ = knot;
  seconds_ = std::max(seconds_, knot.seconds);
  totals_.last_time = std::max(totals_.last_time, time);
  knots_.add(knot);
}

Reduction& RunBuilder::series_of(std::size_t step_key) {
  Reduction*& series = step_series_[step_key];
  if (series == nullptr) series = &series_[cat("step.", step_keys[step_key])];
  return *series;
}

void RunBuilder::add_phases(const StepLine& line) {
  std::array<double, phase_names.size()> seconds{};
  double rest = line.number(step_key("step_s"));
  for (std::size_t i = 0; i < phase_keys.size(); ++i) {
    seconds[i] = line.number(phase_keys[i]);
    rest -= seconds[i];
  }
  seconds.back() = std::max(0.0, rest);
  phases_.add(line.number(step_key("step")), seconds);
}

/// A worker that cost the others more than 0.1 s and 5 % of the time since the last report.
void RunBuilder::add_straggler(const StepLine& line, double seconds) {
  const double cost = line.number(step_key("slowest_cost_s"));
  if (!(cost > 0.1 && cost > 0.05 * seconds)) return;
  const auto rank = whole(line.number(step_key("slowest_rank")));
  if (late_.empty() || late_.back().rank != rank || late_.back().until != last_.step)
    late_.push_back({.rank = rank, .step = last_.step, .until = last_.step, .cost_s = 0.0});
  late_.back().until = line.number(step_key("step"));
  late_.back().cost_s += cost;
  if (late_.size() < 2 * max_stragglers) return;
  std::ranges::nth_element(late_, late_.begin() + max_stragglers, std::ranges::greater(), &Late::cost_s);
  late_.resize(max_stragglers);
  std::ranges::sort(late_, {}, &Late::step);
}

void RunBuilder::validation(const nlohmann::json& line) {
  const Knot knot = knot_at(number_of(line, "step", 0.0), number_of(line, "time"));
  if (knot.step > last_.step) knots_.add(knot);
  seconds_ = std::max(seconds_, knot.seconds);
  for (const Metric& metric : metrics())
    if (metric.chart.place > 0)
      for (const std::string& key : {std::string(metric.key), metric.average_key()})
        if (line.contains(key))
          series_[cat("validation.", key)].add({knot.step, number_of(line, key.c_str())});
  facts_.validation_samples = count_of(line, "samples");
  const double loss = number_of(line, "loss");
  if (std::isnan(totals_.best_loss) || loss < totals_.best_loss) totals_.best_loss = loss;
  if (totals_.figure.empty()) {
    totals_.figure = text_of(line, "best_of");
    // The best loss or error is the smallest: another figure is shown.
    const Metric* const metric = find_metric(totals_.figure);
    if (totals_.figure.empty() || (metric != nullptr && metric->less_is_better))
      totals_.figure = figure_of(line);
    // If weights are averaged, best_of means the figure of the averaged weights.
    if (line.contains("average_" + totals_.figure)) totals_.figure.insert(0, "average_");
  }
  totals_.last_figure = number_of(line, totals_.figure.c_str());
  if (totals_.improvements.empty() ? !std::isnan(totals_.last_figure)
                                   : totals_.last_figure > totals_.improvements.back().value)
    totals_.improvements.push_back({totals_.last_figure, knot});
}

void RunBuilder::checkpoint(const nlohmann::json& line) {
  const double step = number_of(line, "step", 0.0);
  const double stall = number_of(line, "stall_s", 0.0);
  checkpoints_.add({MarkKind::checkpoint, step, step,
                    cat("checkpoint, ", std::round(number_of(line, "bytes", 0.0) * 1e-5) / 10.0,
                        " MB; training waited ", std::round(stall * 1e3) / 1e3, " s")});
}

void RunBuilder::end(const nlohmann::json& line) {
  totals_.ending = text_of(line, "reason");
  const Knot knot = knot_at(number_of(line, "step", 0.0), number_of(line, "time"));
  seconds_ = std::max(seconds_, knot.seconds);
  if (knot.step > last_.step) {
    knots_.add(knot);
    last_ = knot;
  }
}

void RunBuilder::finish(RunRecord& record) {
  for (const auto& [key, reduction] : series_) {
    record.series[key] = reduction.points();
    if (std::vector<Point> means = reduction.means(); !means.empty())
      record.series[mean_of(key)] = std::move(means);
  }
  record.phases = phases_.means();
  record.knots = knots_.items();
  record.marks = checkpoints_.items();
  record.marks.insert(record.marks.end(), others_.begin(), others_.end());
  for (const Late& late : late_)
    record.marks.push_back({MarkKind::straggler, late.step, late.until,
                            cat("rank ", late.rank, " came last and cost the others ",
                                std::round(late.cost_s * 10.0) / 10.0, " s")});
  std::ranges::stable_sort(record.marks, {}, &Mark::step);
  record.facts = facts_;
  totals_.end = last_;
  totals_.end.seconds = seconds_;
  totals_.samples_per_s = trained_s_ > 0.0 ? trained_samples_ / trained_s_ : no_value;
  totals_.exposed_share = trained_s_ > 0.0 ? exposed_s_ / trained_s_ : no_value;
  if (totals_.ending.empty()) totals_.ending = "not ended";
  add_gap(record, totals_);
  record.totals = totals_;
}

namespace {

namespace fs = std::filesystem;

fs::path whole_path(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Adds where and why a run failed, if it did.
void add_failure(RunRecord& record) {
  const std::optional<Failure> failure = read_failure(record.folder);
  if (failure) {
    const auto step = static_cast<double>(std::max<std::int64_t>(0, failure->step));
    record.totals.ending = "failed";
    record.marks.push_back({MarkKind::fault, step, step,
                            cat("rank ", failure->rank, " on ", failure->host, ": ", failure->what)});
  } else if (const std::string path = record.folder + "/failure.json"; is_there(path)) {
    record.warnings.push_back(cat(path, " was not written by a run: it is ignored"));
  }
}

/// What the page shows of the JSON that `flotilla evaluate` wrote.
/// @throws nlohmann::json::exception, UserError if it did not
nlohmann::json evaluation_of(const std::string& text) {
  constexpr std::size_t max_shown_classes = 40;
  const auto given = nlohmann::json::parse(text);
  nlohmann::json shown = {{"checkpoint", given.at("checkpoint").get<std::string>()},
                          {"data", given.at("data").get<std::string>()},
                          {"step", given.at("step").get<std::int64_t>()},
                          {"classes", nlohmann::json::array()}};
  for (const auto& one : given.value("classes", nlohmann::json::array()))
    shown["classes"].push_back({{"name", one.at("class").get<std::string>()},
                                {"samples", one.at("samples").get<std::int64_t>()},
                                {"predicted", one.at("predicted").get<std::int64_t>()},
                                {"correct", one.at("correct").get<std::int64_t>()}});
  const auto matrix = given.value("confusion", std::vector<std::vector<std::int64_t>>());
  const std::size_t count = matrix.empty() ? 0 : shown["classes"].size();
  if (matrix.size() != count ||
      std::ranges::any_of(matrix, [&](const auto& row) { return row.size() != count; }))
    throw UserError("the confusion matrix has not a row and a column for each class");
  shown["confusion"] = count > max_shown_classes ? decltype(matrix)() : matrix;
  return shown;
}

/// Adds evaluation.json, unless it is older than the run, of a step that the run has not done, or damaged.
void add_evaluation(RunRecord& record) {
  const std::string path = record.folder + "/evaluation.json";
  if (!is_there(path)) return;
  const File file = File::open(path);
  std::ifstream metrics(record.folder + "/metrics.jsonl");
  std::string line;
  std::getline(metrics, line);
  const auto start = nlohmann::json::parse(line, nullptr, false);
  std::string why = " is not what `flotilla evaluate --json` writes";
  try {
    const nlohmann::json evaluation = evaluation_of(file.text());
    if (1e-9 * static_cast<double>(file.stamp().changed_ns) < number_of(start, "time", 0.0)) {
      why = " is older than the run";
    } else if (evaluation["step"].get<double>() > record.totals.end.step) {
      why = cat(" is of step ", evaluation["step"].dump(), ", which the run has not done");
    } else {
      record.evaluation = evaluation.dump();
      return;
    }
  } catch (const std::exception&) {  // it is damaged
  }
  record.warnings.push_back(cat(path, why, ": it is left out; write it again with `flotilla evaluate ",
                                record.folder, " --json --output ", path, "`"));
}

[[noreturn]] void refuse_without_step(const std::string& folder) {
  throw UserError(
      cat("the run '", folder, "' has not reported a step yet (run.log_every): wait, or leave it out"));
}

}  // namespace

void check_is_run(const std::string& folder) {
  if (!is_there(folder)) throw UserError(cat("there is no run '", folder, "': check the path"));
  if (!fs::is_directory(folder))
    throw UserError(cat("'", folder, "' is a file: give the folder of the run, '", folder_of(folder), "'"));
  if (!is_there(folder + "/metrics.jsonl"))
    throw UserError(
        cat("'", folder, "' is no folder of a run: it holds no metrics.jsonl; give what run.output named"));
}

void check_has_step(const std::string& folder) {
  check_is_run(folder);
  const std::string path = folder + "/metrics.jsonl";
  File::open(path);  // refuses what is not a file
  std::ifstream metrics(path);
  for (std::string line; std::getline(metrics, line);)
    if (line.find("\"event\":\"step\"") != line.npos) return;
  refuse_without_step(folder);
}

RunRecord read_run(const std::string& folder, const std::string& name) {
  check_is_run(folder);
  const std::string path = folder + "/metrics.jsonl";
  RunRecord record{.name = name, .folder = folder};
  RunBuilder builder;
  const DamagedLines damaged = read_metrics(path, [&](const MetricsLine& line) { builder.take(line); });
  builder.finish(record);
  if (damaged.count > 0)
    record.warnings.push_back(damaged.count == 1
                                  ? cat(path, ":", damaged.first, ": a line is damaged: it is left out")
                                  : cat(path, ":", damaged.first, ": ", damaged.count,
                                        " lines are damaged, this is the first: they are left out"));
  if (record.totals.step_lines == 0) refuse_without_step(folder);
  add_failure(record);
  add_evaluation(record);
  if (is_there(folder + "/deck.toml")) record.deck = File::open(folder + "/deck.toml").text();
  return record;
}

std::vector<std::string> unique_names(const std::vector<std::string>& folders) {
  std::vector<fs::path> paths;
  std::vector<fs::path> names;
  for (const std::string& folder : folders) {
    paths.push_back(whole_path(folder));
    names.push_back(paths.back().filename());
    paths.back() = paths.back().parent_path();
  }
  // Each round puts another part before names that are not unique yet.
  for (bool changed = true; changed;) {
    changed = false;
    const std::multiset<fs::path> taken(names.begin(), names.end());
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (taken.count(names[i]) < 2 || !paths[i].has_filename()) continue;
      names[i] = paths[i].filename() / names[i];
      paths[i] = paths[i].parent_path();
      changed = true;
    }
  }
  std::vector<std::string> texts;
  for (const fs::path& name : names) texts.push_back(name.empty() ? "/" : name.string());
  return texts;
}

std::vector<RunRecord> read_runs(const std::vector<std::string>& folders) {
  for (std::size_t i = 0; i < folders.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      std::error_code not_there;
      if (fs::equivalent(folders[i], folders[k], not_there))
        throw UserError(cat("the run '", folders[i], "' is given twice: name each run once"));
    }
  const std::vector<std::string> names = unique_names(folders);
  std::vector<RunRecord> runs;
  for (std::size_t i = 0; i < folders.size(); ++i) runs.push_back(read_run(folders[i], names[i]));
  return runs;
}

}  // namespace flotilla::report
