// SPDX-License-Identifier: Apache-2.0
#include "src/report/read_run.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/report/metrics_reader.hpp"
#include "src/report/run_builder.hpp"

namespace flotilla::report {

namespace {

namespace fs = std::filesystem;

fs::path whole_path(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// The file of a run that ended with a failure.
void read_failure(RunRecord& record) {
  const std::string path = record.folder + "/failure.json";
  if (!is_there(path)) return;
  const auto json = nlohmann::json::parse(File::open(path).text(), nullptr, false);
  if (!json.is_object()) {
    record.warnings.push_back(cat(path, " is not JSON: it is left out"));
    return;
  }
  const auto text = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  const double step = std::max(0.0, number("step"));
  record.totals.ending = "failed";
  record.marks.push_back(
      {MarkKind::fault, step, step,
       cat("rank ", static_cast<std::int64_t>(number("rank")), " on ", text("host"), ": ", text("what"))});
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
  std::ifstream metrics(folder + "/metrics.jsonl");
  for (std::string line; std::getline(metrics, line);)
    if (line.find("\"event\":\"step\"") != line.npos) return;
  refuse_without_step(folder);
}

std::vector<double> last_counted_steps(const std::vector<double>& first_steps) {
  std::vector<double> last(first_steps.size() + 1, std::numeric_limits<double>::infinity());
  for (std::size_t i = first_steps.size(); i-- > 0;) last[i] = std::min(last[i + 1], first_steps[i]);
  return last;
}

RunRecord read_run(const std::string& folder, const std::string& name) {
  check_is_run(folder);
  const std::string path = folder + "/metrics.jsonl";
  RunRecord record{.name = name, .folder = folder};
  const auto read = [&](std::vector<double> counted) {
    RunBuilder builder(std::move(counted));
    const DamagedLines damaged = read_metrics(path, [&](const MetricsLine& line) { builder.take(line); });
    return std::pair(std::move(builder), damaged);
  };
  auto [builder, damaged] = read({});
  if (builder.overlaps()) builder = read(last_counted_steps(builder.first_steps())).first;
  builder.finish(record);
  if (damaged.count > 0)
    record.warnings.push_back(damaged.count == 1
                                  ? cat(path, ":", damaged.first, ": a line is damaged: it is left out")
                                  : cat(path, ":", damaged.first, ": ", damaged.count,
                                        " lines are damaged, this is the first: they are left out"));
  if (record.totals.step_lines == 0) refuse_without_step(folder);
  read_failure(record);
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
