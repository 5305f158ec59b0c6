// SPDX-License-Identifier: Apache-2.0
#include "src/commands/prediction_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Bytes that are not UTF-8, which names of files may hold, become U+FFFD.
std::string json_text(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// In UTF-8 as json_text(). Fields with commas, quotes or line ends stand in quotes, as RFC 4180 says.
std::string csv_field(const std::string& given) {
  const auto text = nlohmann::json::parse(json_text(given)).get<std::string>();
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char letter : text) quoted += letter == '"' ? "\"\"" : std::string(1, letter);
  return quoted + '"';
}

std::string number_text(double probability) {
  return fmt::format("{:.6g}", probability);
}

std::string class_text(const PredictionLayout& layout, std::size_t label) {
  return layout.classes.empty() ? std::to_string(label) : layout.classes[label];
}

/// Columns that are told as they come: no ranking.
bool has_columns(const PredictionLayout& layout) {
  return layout.all || layout.told != Told::classes;
}

std::string column_name(const PredictionLayout& layout, std::size_t column) {
  return layout.told == Told::classes ? csv_field(class_text(layout, column)) : cat("output_", column);
}

/// The columns as texts, each behind a comma.
std::string columns_of(const PredictionLayout& layout, std::span<const float> outputs) {
  std::string text;
  if (layout.told == Told::classes) {
    for (const double probability : probabilities_of(outputs)) text += "," + number_text(probability);
    return text;
  }
  for (const float output : outputs)
    text += "," + (layout.told == Told::numbers
                       ? fmt::format("{}", output)
                       : number_text(1.0 / (1.0 + std::exp(-static_cast<double>(output)))));
  return text;
}

std::size_t classes_told(const PredictionLayout& layout) {
  return static_cast<std::size_t>(has_columns(layout) ? layout.outputs
                                                      : std::min(layout.top, layout.outputs));
}

/// The classes from the most to the least probable.
std::vector<std::size_t> ranking(const std::vector<double>& probabilities, std::size_t first) {
  std::vector<std::size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      return probabilities[a] != probabilities[b] ? probabilities[a] > probabilities[b]
                                                                  : a < b;
                    });
  order.resize(first);
  return order;
}

/// What comes before a sample's classes, in both formats.
std::string begin_of(const PredictionLayout& layout, std::int64_t sample, const std::string& name) {
  if (layout.format == PredictionFormat::csv)
    return layout.names ? cat(sample, ",", csv_field(name)) : cat(sample);
  return cat("{\"sample\":", sample, layout.names ? cat(",\"name\":", json_text(name)) : "");
}

}  // namespace

std::vector<double> probabilities_of(std::span<const float> outputs) {
  const double highest = *std::ranges::max_element(outputs);
  std::vector<double> values;
  for (const float output : outputs) values.push_back(std::exp(static_cast<double>(output) - highest));
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

std::string prediction_header(const PredictionLayout& layout) {
  if (layout.format == PredictionFormat::jsonl) return {};
  std::string text = layout.names ? "sample,name" : "sample";
  for (std::size_t k = 0; k < classes_told(layout); ++k)
    text += has_columns(layout) ? "," + column_name(layout, k)
                                : fmt::format(",class_{},probability_{}", k + 1, k + 1);
  return text + "\n";
}

std::string prediction_line(const PredictionLayout& layout, std::int64_t sample, const std::string& name,
                            std::span<const float> outputs) {
  std::string text = begin_of(layout, sample, name);
  if (layout.format == PredictionFormat::csv && has_columns(layout))
    return text + columns_of(layout, outputs) + "\n";
  if (layout.told != Told::classes)
    return cat(text, ",\"outputs\":[", columns_of(layout, outputs).substr(1), "]}\n");
  const std::vector<double> probabilities = probabilities_of(outputs);
  std::string classes;
  std::string values;
  for (const std::size_t label : ranking(probabilities, classes_told(layout))) {
    const std::string word = class_text(layout, label);
    if (layout.format == PredictionFormat::csv) {
      text += cat(",", csv_field(word), ",", number_text(probabilities[label]));
      continue;
    }
    classes += cat(classes.empty() ? "" : ",", layout.classes.empty() ? word : json_text(word));
    values += cat(values.empty() ? "" : ",", number_text(probabilities[label]));
  }
  if (layout.format == PredictionFormat::csv) return text + "\n";
  return cat(text, ",\"classes\":[", classes, "],\"probabilities\":[", values, "]}\n");
}

std::string unread_line(const PredictionLayout& layout, std::int64_t sample, const std::string& name,
                        const std::string& why) {
  const std::string text = begin_of(layout, sample, name);
  if (layout.format == PredictionFormat::jsonl) return cat(text, ",\"error\":", json_text(why), "}\n");
  return text + std::string((has_columns(layout) ? 1 : 2) * classes_told(layout), ',') + "\n";
}

}  // namespace flotilla
