// SPDX-License-Identifier: Apache-2.0
#include "src/report/read_run.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include "kernels/error.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/observe/failure_report.hpp"
#include "src/report/metrics_reader.hpp"
#include "src/report/run_builder.hpp"

namespace flotilla::report {

namespace {

namespace fs = std::filesystem;

fs::path whole_path(const std::string& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

/// Where and why a run failed, if it did.
void add_failure(RunRecord& record) {
  const std::optional<Failure> failure = read_failure(record.folder);
  if (failure) {
    const auto step = static_cast<double>(std::max<std::int64_t>(0, failure->step));
    record.totals.ending = "failed";
    record.marks.push_back({MarkKind::fault, step, step,
                            cat("rank ", failure->rank, " on ", failure->host, ": ", failure->what)});
  } else if (const std::string path = record.folder + "/failure.json"; is_there(path)) {
    record.warnings.push_back(cat(path, " is no failure that a run wrote: it is left out"));
  }
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
  File::open(path);  // refuses what is no file
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
