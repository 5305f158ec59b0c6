// SPDX-License-Identifier: Apache-2.0
#include "src/observe/failure_report.hpp"

#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "kernels/error.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/print.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

void write_failure_file(const Failure& failure, const std::string& folder) {
  nlohmann::ordered_json json;
  json["time"] = seconds_since_epoch();
  json["rank"] = failure.rank;
  json["ranks"] = failure.ranks;
  json["host"] = failure.host;
  json["step"] = failure.step;
  json["what"] = failure.what;
  json["exit_code"] = failure.exit_code;
  const auto text = json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  // It gets its name before the disk is waited for: a watchdog, which is not kept by a slow disk, may end the
  // process meanwhile.
  AtomicFile file(folder + "/failure.json");
  file.append(text + '\n');
  file.give_name();
  file.complete();
}

/// @throws nlohmann::json::exception if it is there and no integer, std::out_of_range if T does not hold it
template <class T>
T integer_of(const nlohmann::json& json, const char* key, T otherwise) {
  if (!json.contains(key)) return otherwise;
  const auto number = json.at(key).get_ref<const nlohmann::json::number_integer_t&>();
  const bool wraps = json.at(key).is_number_unsigned() && number < 0;
  if (wraps || !std::in_range<T>(number)) throw std::out_of_range(key);
  return static_cast<T>(number);
}

}  // namespace

std::optional<Failure> read_failure(const std::string& folder, double since_s) {
  const std::string path = folder + "/failure.json";
  if (!is_there(path)) return std::nullopt;
  const auto json = nlohmann::json::parse(File::open(path).text(), nullptr, false);
  try {
    if (!json.is_object() || json.value("time", 0.0) < since_s) return std::nullopt;
    return Failure{.rank = integer_of(json, "rank", 0),
                   .ranks = integer_of(json, "ranks", 1),
                   .host = json.value("host", ""),
                   .step = integer_of(json, "step", std::int64_t{-1}),
                   .what = json.value("what", ""),
                   .exit_code = integer_of(json, "exit_code", int{exit_library_error})};
  } catch (const std::exception&) {  // not a file of Flotilla's
    return std::nullopt;
  }
}

std::string failure_line(const Failure& failure) {
  if (failure.step < 0 && failure.ranks == 1) return "flotilla: " + failure.what;
  std::string line = cat("flotilla: rank ", failure.rank);
  if (!failure.host.empty()) line += " on " + failure.host;
  if (failure.step >= 0) line += cat(", step ", failure.step);
  return line + ": " + failure.what;
}

void report_failure(const Failure& failure, const std::string& folder) noexcept {
  try {
    print_error_line(failure_line(failure));
    if (!folder.empty()) write_failure_file(failure, folder);
  } catch (const std::exception& error) {
    // The failure may be lack of memory or of disk; the line on stderr is what matters.
    print_error_line(std::string("flotilla: ") + error.what());
  }
}

}  // namespace flotilla
