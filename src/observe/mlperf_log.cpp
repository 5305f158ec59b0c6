// SPDX-License-Identifier: Apache-2.0
#include "src/observe/mlperf_log.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/file.hpp"

namespace flotilla {

namespace {

constexpr std::string_view prefix = ":::MLLOG ";

std::int64_t milliseconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

nlohmann::ordered_json json_of(const MlperfFacts::value_type::second_type& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return *integer;
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return nullptr;
}

}  // namespace

struct MlperfLog::Event {
  Kind kind = Kind::point;
  std::string key;
  nlohmann::ordered_json value = nullptr;
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  std::int64_t time_ms = milliseconds_since_1970();
};

MlperfLog::MlperfLog(std::string path, std::int64_t resumed_step, std::int64_t epochs)
    : path_(std::move(path)), epochs_(epochs), block_begin_ms_(milliseconds_since_1970()) {
  if (resumed_step > 0 && std::filesystem::exists(path_)) take_over(File::open(path_).text(), resumed_step);
}

void MlperfLog::take_over(const std::string& text, std::int64_t resumed_step) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto json =
        nlohmann::json::parse(line.substr(std::min(line.size(), prefix.size())), nullptr, false);
    if (!json.is_object() || !json.contains("metadata") || !json.at("metadata").is_object()) continue;
    const auto& metadata = json.at("metadata");
    const std::int64_t step = metadata.value("step", nlohmann::json()).is_number_integer()
                                  ? metadata.at("step").get<std::int64_t>()
                                  : 0;
    if (step > resumed_step) continue;
    step_ = std::max(step_, step);
    if (json.value("key", nlohmann::json()) == "run_stop") {
      stop_ = line + '\n';
      ended_ = metadata.value("status", nlohmann::json()) == "success";
    } else {
      text_ += line + '\n';
    }
  }
  if (ended_) text_ += stop_;
}

void MlperfLog::run_starts(const MlperfFacts& facts, double age_s) {
  if (!text_.empty()) return;
  const std::int64_t init_ms = milliseconds_since_1970() - static_cast<std::int64_t>(age_s * 1e3);
  add({.key = "cache_clear", .value = false, .time_ms = init_ms});
  add({.kind = Kind::begin, .key = "init_start", .time_ms = init_ms});
  for (const auto& [key, value] : facts) add({.key = key, .value = json_of(value)});
  add({.kind = Kind::end, .key = "init_stop"});
  add({.kind = Kind::begin, .key = "run_start"});
  block_begin_ms_ = milliseconds_since_1970();
  write();
}

void MlperfLog::validation_starts(std::int64_t epochs, std::int64_t step) {
  is_repeated_ = step <= step_;
  if (is_repeated_) return;
  step_ = step;
  const nlohmann::ordered_json block = {{"first_epoch_num", epochs_ + 1},
                                        {"epoch_count", std::max<std::int64_t>(1, epochs - epochs_)},
                                        {"step", step_}};
  add({.kind = Kind::begin, .key = "block_start", .metadata = block, .time_ms = block_begin_ms_});
  add({.kind = Kind::end, .key = "block_stop", .metadata = block});
  epochs_ = epochs;
  add({.kind = Kind::begin, .key = "eval_start", .metadata = {{"epoch_num", epochs_}, {"step", step_}}});
}

void MlperfLog::validation_stops(double accuracy) {
  if (is_repeated_) return;
  const nlohmann::ordered_json epoch = {{"epoch_num", epochs_}, {"step", step_}};
  add({.key = "eval_accuracy", .value = accuracy, .metadata = epoch});
  add({.kind = Kind::end, .key = "eval_stop", .metadata = epoch});
  block_begin_ms_ = milliseconds_since_1970();
  try_to_write();
}

void MlperfLog::run_stops(bool reached_target) {
  if (stop_.empty())
    stop_ = line_of(
        {.kind = Kind::end,
         .key = "run_stop",
         .metadata = {
             {"status", reached_target ? "success" : "aborted"}, {"epoch_num", epochs_}, {"step", step_}}});
  if (!ended_) text_ += stop_;
  ended_ = true;
  try_to_write();
}

void MlperfLog::write() const {
  write_text_file_atomically(path_, text_);
}

void MlperfLog::try_to_write() const {
  try {
    write();
  } catch (const UserError&) {  // write() at the end of the run says it
  }
}

void MlperfLog::add(const Event& event) {
  if (ended_) return;
  stop_.clear();
  text_ += line_of(event);
}

std::string MlperfLog::line_of(const Event& event) {
  constexpr const char* kinds[] = {"POINT_IN_TIME", "INTERVAL_START", "INTERVAL_END"};
  const nlohmann::ordered_json line = {{"namespace", ""},
                                       {"time_ms", event.time_ms},
                                       {"event_type", kinds[static_cast<std::size_t>(event.kind)]},
                                       {"key", event.key},
                                       {"value", event.value},
                                       {"metadata", event.metadata}};
  return std::string(prefix) + line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace flotilla
