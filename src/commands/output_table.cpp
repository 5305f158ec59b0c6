// SPDX-License-Identifier: Apache-2.0
#include "src/commands/output_table.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t most_shown_outputs = 32;

struct NamedFigure {
  const char* name;
  double OutputFigures::*figure;
  bool has_unit = false;  ///< That of the data: shown with six digits, whatever its size
};

std::vector<NamedFigure> figures_of(const OutputMetrics& metrics) {
  if (metrics.binary) return {{"accuracy", &OutputFigures::accuracy}, {"f1", &OutputFigures::f1}};
  return {
      {"rmse", &OutputFigures::rmse, true}, {"mae", &OutputFigures::mae, true}, {"r2", &OutputFigures::r2}};
}

std::string text_of(const OutputFigures& figures, const NamedFigure& named) {
  const double value = figures.*named.figure;
  return named.has_unit ? fmt::format("{:.6g}", value) : fmt::format("{:.5f}", value);
}

}  // namespace

std::vector<std::string> lines_of(const OutputMetrics& metrics) {
  std::vector<std::string> lines;
  const std::vector<NamedFigure> figures = figures_of(metrics);
  for (const NamedFigure& each : figures)
    lines.push_back(fmt::format("{:<12}{}", each.name, text_of(metrics.all, each)));
  const std::size_t count = metrics.outputs.size();
  if (count == 1) return lines;
  if (count > most_shown_outputs) {
    lines.push_back(cat("outputs     ", count, ": those of each are in the JSON (--json)"));
    return lines;
  }
  std::string heading = fmt::format("{:>8}", "output");
  for (const NamedFigure& each : figures) heading += fmt::format("{:>14}", each.name);
  lines.push_back(heading);
  for (std::size_t output = 0; output < count; ++output) {
    std::string line = fmt::format("{:>8}", output);
    for (const NamedFigure& each : figures)
      line += fmt::format("{:>14}", text_of(metrics.outputs[output], each));
    lines.push_back(line);
  }
  return lines;
}

void add_metrics(const OutputMetrics& metrics, nlohmann::ordered_json& json) {
  const std::vector<NamedFigure> figures = figures_of(metrics);
  for (const NamedFigure& each : figures) json[each.name] = metrics.all.*each.figure;
  json["outputs"] = nlohmann::ordered_json::array();
  for (std::size_t output = 0; output < metrics.outputs.size(); ++output) {
    nlohmann::ordered_json one = {{"output", output}};
    for (const NamedFigure& each : figures) one[each.name] = metrics.outputs[output].*each.figure;
    json["outputs"].push_back(std::move(one));
  }
}

}  // namespace flotilla
