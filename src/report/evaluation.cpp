// SPDX-License-Identifier: Apache-2.0
#include "src/report/evaluation.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/report/metrics_reader.hpp"

namespace flotilla::report {

namespace {

/// The class that samples of class `label` are most often taken for by mistake.
void set_confused(const std::vector<std::int64_t>& row, std::size_t label,
                  std::vector<ClassResult>& classes) {
  for (std::size_t taken = 0; taken < row.size(); ++taken)
    if (taken != label && row[taken] > classes[label].confused) {
      classes[label].confused = row[taken];
      classes[label].confused_with = classes.at(taken).name;
    }
}

/// @throws nlohmann::json::exception, std::out_of_range if the text is not what evaluate writes
RunEvaluation evaluation_of(const std::string& text) {
  const auto json = nlohmann::json::parse(text);
  RunEvaluation evaluation{.checkpoint = json.at("checkpoint"),
                           .data = json.at("data"),
                           .step = json.at("step"),
                           .samples = json.at("samples")};
  for (const auto& one : json.value("classes", nlohmann::json::array()))
    evaluation.classes.push_back({.name = one.at("class"),
                                  .samples = one.at("samples"),
                                  .predicted = one.at("predicted"),
                                  .correct = one.at("correct")});
  std::vector<std::vector<std::int64_t>> matrix = json.value("confusion", decltype(matrix)());
  if (matrix.size() > evaluation.classes.size()) throw std::out_of_range("confusion");
  for (std::size_t label = 0; label < matrix.size(); ++label)
    set_confused(matrix[label], label, evaluation.classes);
  if (matrix.size() <= max_shown_classes) evaluation.confusion = std::move(matrix);
  return evaluation;
}

/// When the run was first started, in nanoseconds since 1970; 0: not known.
double start_ns(const std::string& folder) {
  std::ifstream metrics(folder + "/metrics.jsonl");
  std::string line;
  std::getline(metrics, line);
  const auto json = nlohmann::json::parse(line, nullptr, false);
  return json.is_object() && json.contains("time") && json["time"].is_number()
             ? 1e9 * json["time"].get<double>()
             : 0.0;
}

}  // namespace

void add_evaluation(RunRecord& record) {
  const std::string path = record.folder + evaluation_file;
  if (!is_there(path)) return;
  const auto leave_out = [&](const std::string& why) {
    record.warnings.push_back(cat(path, why, ": it is left out; write it again with `flotilla evaluate ",
                                  record.folder, " --json --output ", path, "`"));
  };
  const File file = File::open(path);
  if (static_cast<double>(file.stamp().changed_ns) < start_ns(record.folder))
    return leave_out(" is older than the run");
  try {
    record.evaluation = evaluation_of(file.text());
  } catch (const std::exception&) {
    return leave_out(" is not what `flotilla evaluate --json` writes");
  }
  if (static_cast<double>(record.evaluation->step) <= record.totals.end.step) return;
  leave_out(cat(" is of step ", record.evaluation->step, ", which the run has not done"));
  record.evaluation.reset();
}

}  // namespace flotilla::report
