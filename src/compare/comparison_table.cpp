// SPDX-License-Identifier: Apache-2.0
#include "src/compare/comparison_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "kernels/error.hpp"
#include "src/observe/metrics.hpp"

namespace flotilla {

namespace {

using TableJson = nlohmann::ordered_json;
using Figure = std::function<std::optional<double>(const RunFigures& figures)>;

/// A column of the table, and the key of its mean in the JSON.
struct Column {
  std::string heading;
  std::string key;
  Figure figure;
  double scale = 1.0;  ///< Factor from the figure to what the table shows
  int digits = 0;
};

std::vector<const RunFigures*> trained(const ComparedRun& run) {
  std::vector<const RunFigures*> figures;
  for (const ComparedTraining& training : run.trainings)
    if (training.failure.empty()) figures.push_back(&training.figures);
  return figures;
}

/// The heading of a figure that is shown as it is; empty: there is an accuracy, shown in percent.
std::string heading_of_figure(const Comparison& comparison) {
  for (const ComparedRun& run : comparison.runs)
    for (const ComparedTraining& each : run.trainings)
      if (const Metric* metric = find_metric(each.figures.metric);
          metric != nullptr && !metric->heading.empty())
        return std::string(metric->heading);
  return {};
}

std::vector<Column> columns_of(const Comparison& comparison) {
  const std::string plain = heading_of_figure(comparison);
  const std::string unit = plain.empty() ? "accuracy, %" : plain;
  const double scale = plain.empty() ? 100.0 : 1.0;
  const int digits = plain.empty() ? 2 : 4;
  std::vector<Column> columns = {
      {"final " + unit, "final", [](const RunFigures& f) { return f.last; }, scale, digits},
      {"best", "best", [](const RunFigures& f) { return f.best; }, scale, digits},
      {"training loss", "loss", [](const RunFigures& f) { return std::optional(f.loss); }, 1.0, 4},
      {"samples/s", "samples_per_s", [](const RunFigures& f) { return std::optional(f.samples_per_s()); }},
      {"time, s", "seconds", [](const RunFigures& f) { return std::optional(f.seconds); }, 1.0, 1}};
  if (comparison.target)
    columns.push_back({fmt::format("s to {:g}{}", *comparison.target * scale, plain.empty() ? " %" : ""),
                       "target_s", [](const RunFigures& f) { return f.target_s; }, 1.0, 1});
  columns.push_back({"bytes/sample", "bytes_per_sample",
                     [](const RunFigures& f) { return std::optional(f.bytes_per_sample); }});
  columns.push_back({"exposed comm., %", "exposed_share",
                     [](const RunFigures& f) { return std::optional(f.exposed_share); }, 100.0, 1});
  return columns;
}

std::vector<double> values_of(const ComparedRun& run, const Figure& figure) {
  std::vector<double> values;
  for (const RunFigures* figures : trained(run))
    if (const std::optional<double> value = figure(*figures)) values.push_back(*value);
  return values;
}

std::string cell(const ComparedRun& run, const Column& column) {
  const std::vector<double> values = values_of(run, column.figure);
  if (values.empty()) return "–";
  const SeedMean mean = mean_of(values);
  std::string text = fmt::format("{:.{}f}", mean.mean * column.scale, column.digits);
  if (mean.standard_error)
    text += fmt::format(" ± {:.{}f}", *mean.standard_error * column.scale, column.digits);
  // A target that some seeds missed.
  if (values.size() < trained(run).size())
    text += fmt::format(" ({} of {})", values.size(), trained(run).size());
  return text;
}

/// "2 seeds diverged"
std::string remarks(const ComparedRun& run) {
  std::vector<std::pair<std::string, int>> counts;
  for (const ComparedTraining& training : run.trainings) {
    if (training.failure.empty()) continue;
    const auto known = std::ranges::find(counts, training.failure, &std::pair<std::string, int>::first);
    if (known == counts.end())
      counts.emplace_back(training.failure, 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [failure, count] : counts) {
    text += (text.empty() ? "" : "; ") + failure;
    if (run.trainings.size() > 1) text += cat(" (", count, " of ", run.trainings.size(), " seeds)");
  }
  return text;
}

/// Workers, samples of a step and samples in all, which may differ between runs.
std::vector<std::string> sizes_of(const ComparedRun& run) {
  for (const ComparedTraining& training : run.trainings)
    if (training.figures.workers > 0)
      return {cat(training.figures.workers), cat(training.figures.global_batch),
              cat(training.figures.samples)};
  return {"–", "–", "–"};
}

/// Columns of the terminal that UTF-8 text takes, where each character takes one.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char letter) { return (static_cast<unsigned char>(letter) & 0xC0U) != 0x80U; }));
}

std::string in_markdown(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  for (std::size_t at = text.find('|'); at != text.npos; at = text.find('|', at + 2)) text.insert(at, "\\");
  return text;
}

/// @param rows the first has the headings; all of one length
std::string padded(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths(rows.front().size(), 3);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  std::string text;
  for (std::size_t number = 0; number < rows.size(); ++number) {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string& each = rows[number][i];
      const std::string blanks(widths[i] - width_of(each), ' ');
      text += "| " + (i == 0 || i + 1 == widths.size() ? each + blanks : blanks + each) + " ";
    }
    text += "|\n";
    if (number > 0) continue;
    for (std::size_t i = 0; i < widths.size(); ++i)
      text += "|" + std::string(widths[i] + 1, '-') + (i == 0 || i + 1 == widths.size() ? "-" : ":");
    text += "|\n";
  }
  return text;
}

TableJson json_of(const ComparedTraining& training) {
  const RunFigures& figures = training.figures;
  const auto optional = [](const std::optional<double>& value) {
    return value ? TableJson(*value) : TableJson();
  };
  return {{"seed", training.seed},
          {"folder", training.folder},
          {"failure", training.failure.empty() ? TableJson() : TableJson(training.failure)},
          {"workers", figures.workers},
          {"global_batch_size", figures.global_batch},
          {"steps", figures.steps},
          {"samples", figures.samples},
          {"metric", figures.metric},
          {"final", optional(figures.last)},
          {"best", optional(figures.best)},
          {"loss", figures.loss},
          {"samples_per_s", figures.samples_per_s()},
          {"seconds", figures.seconds},
          {"target_s", optional(figures.target_s)},
          {"bytes_per_sample", figures.bytes_per_sample},
          {"exposed_share", figures.exposed_share}};
}

}  // namespace

SeedMean mean_of(std::span<const double> values) {
  SeedMean result{.values = values.size()};
  if (values.empty()) return result;
  const auto count = static_cast<double>(values.size());
  result.mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  if (values.size() < 2) return result;
  double squares = 0.0;
  for (const double value : values) squares += (value - result.mean) * (value - result.mean);
  result.standard_error = std::sqrt(squares / (count - 1.0) / count);
  return result;
}

std::string markdown_of(const Comparison& comparison) {
  const std::vector<Column> columns = columns_of(comparison);
  std::vector<std::vector<std::string>> rows(1, {"run"});
  for (const Column& column : columns) rows[0].push_back(column.heading);
  for (const char* heading : {"workers", "batch", "samples", "remarks"}) rows[0].emplace_back(heading);
  for (const ComparedRun& run : comparison.runs) {
    std::vector<std::string> row = {in_markdown(run.name)};
    for (const Column& column : columns) row.push_back(cell(run, column));
    for (const std::string& size : sizes_of(run)) row.push_back(size);
    row.push_back(in_markdown(remarks(run)));
    rows.push_back(std::move(row));
  }
  const std::size_t seeds = comparison.runs.empty() ? 0 : comparison.runs.front().trainings.size();
  return fmt::format(
      "`{}`\n\n{}. {}{}\n\n{}", comparison.command, comparison.machine,
      comparison.equal == Equal::time ? fmt::format("Each run trains for {:g} s of steps", comparison.seconds)
                                      : std::string("All runs see equally many samples"),
      seeds > 1 ? fmt::format(", {} seeds each: mean ± standard error.", seeds) : std::string("; one seed."),
      padded(rows));
}

std::string json_of(const Comparison& comparison) {
  TableJson runs = TableJson::array();
  for (const ComparedRun& run : comparison.runs) {
    TableJson json = {{"name", run.name}, {"set", run.set}};
    for (const Column& column : columns_of(comparison)) {
      const SeedMean mean = mean_of(values_of(run, column.figure));
      json[column.key] = {
          {"mean", mean.values > 0 ? TableJson(mean.mean) : TableJson()},
          {"standard_error", mean.standard_error ? TableJson(*mean.standard_error) : TableJson()},
          {"seeds", mean.values}};
    }
    json["trainings"] = TableJson::array();
    for (const ComparedTraining& training : run.trainings) json["trainings"].push_back(json_of(training));
    runs.push_back(std::move(json));
  }
  const TableJson whole = {
      {"command", comparison.command},
      {"machine", comparison.machine},
      {"equal", comparison.equal == Equal::time ? "time" : "samples"},
      {"seconds", comparison.equal == Equal::time ? TableJson(comparison.seconds) : TableJson()},
      {"target", comparison.target ? TableJson(*comparison.target) : TableJson()},
      {"runs", std::move(runs)}};
  return whole.dump(2, ' ', false, TableJson::error_handler_t::replace) + "\n";
}

}  // namespace flotilla
