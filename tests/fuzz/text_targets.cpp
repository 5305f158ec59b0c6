// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "kernels/machine/control_groups.hpp"
#include "kernels/machine/processors.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/compare/plan.hpp"
#include "src/compare/run_figures.hpp"
#include "src/config/deck.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/images/image_list.hpp"
#include "src/job/launcher.hpp"
#include "src/job/slurm.hpp"
#include "src/job/time_limit.hpp"
#include "src/observe/failure_report.hpp"
#include "src/report/metrics_reader.hpp"
#include "src/report/read_run.hpp"
#include "tests/fuzz/fuzz_targets.hpp"
#include "tests/support/temporary_folder.hpp"

// What people and the system write as text.

namespace flotilla::fuzz {

namespace {

/// A deck; after a byte 0 overrides, one a line.
void deck(Input input) {
  const TwoInputs parts = split(input);
  DeckSource source{.path = "/nowhere/deck.toml", .text = text_of(parts.first), .overrides = {}};
  std::istringstream lines(text_of(parts.second));
  for (std::string line; std::getline(lines, line);) source.overrides.push_back(line);
  try {
    load_deck(source);
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void plan(Input input) {
  if (read_plan("/nowhere/plan.toml", text_of(input)).mistakes.empty()) note_read();
}

void image_list(Input input) {
  static const test::TemporaryFolder folder;
  static const bool made = std::filesystem::create_directory(folder.path("photos"));
  if (made)
    for (const char* name : {"a.jpg", "b.jpg", "photos/a.jpg"}) std::ofstream(folder.path(name));
  const InputFile file(input);
  for (const bool labelled : {true, false}) {
    try {
      read_image_list(file.path(), {.root = folder.path(),
                                    .classes = 10,
                                    .unique = labelled,
                                    .missing_allowed = true,
                                    .root_key = "data.train.root",
                                    .labelled = labelled});
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

void class_names(Input input) {
  const InputFile file(input);
  DataConfig data;
  data.class_names = file.path();
  try {
    flotilla::class_names(data, 3);
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// Whether slurm_time() needs not ask squeue.
bool has_end_time() {
  const char* const text = std::getenv("SLURM_JOB_END_TIME");
  if (text == nullptr) return false;
  const std::string_view end(text);
  return !end.empty() && end.size() < 19 &&
         std::ranges::all_of(end, [](char c) { return '0' <= c && c <= '9'; });
}

/// The variables of a job that launchers set, one value per line; after a byte 0 what squeue prints.
void slurm(Input input) {
  const TwoInputs parts = split(input);
  std::istringstream lines(text_of(parts.first));
  for (const char* name :
       {"SLURM_JOB_ID", "SLURM_JOB_END_TIME", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_CPUS_ON_NODE",
        "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_SIZE", "PMI_RANK"}) {
    if (std::string value; std::getline(lines, value)) {
      setenv(name, value.c_str(), 1);
    } else {
      unsetenv(name);
    }
  }
  if (const auto process = launched_process()) singleton_mpi_error(*process, "MPI");
  mpi::find_processors();
  if (has_end_time()) TimeLimit({}, slurm_time(), 0.0, 0);
  const std::string squeue = text_of(parts.second);
  if (slurm_duration_s(squeue)) note_read();
  if (!slurm_jobs_in(squeue).empty()) note_read();
}

void ranks(Input input) {
  const std::string text = text_of(input);
  mpi::parse_processor_list(text);
  try {
    mpi::parse_ranks(text, 64, "roles.server_ranks");
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// What the system says about processors and control groups: /proc/self/cgroup, and after a byte 0 the
/// content of every other file.
void control_groups(Input input) {
  namespace fs = std::filesystem;
  static const test::TemporaryFolder folder;
  const fs::path root = folder.path();
  const TwoInputs parts = split(input);
  const auto save = [](const fs::path& file, Input content) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text_of(content);
  };
  save(root / "proc/self/cgroup", parts.first);
  for (const char* file :
       {"proc/meminfo", "sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current",
        "sys/fs/cgroup/memory.stat", "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/job/memory.max",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes", "sys/fs/cgroup/memory/job/memory.usage_in_bytes",
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us",
        "sys/devices/system/cpu/online", "sys/devices/system/cpu/cpu0/topology/physical_package_id",
        "sys/devices/system/node/node0/cpulist"})
    save(root / file, parts.second);
  available_memory_bytes(root.string());
  mpi::find_processors(root.string());
  if (!flotilla::control_groups(root.string(), "memory").empty()) note_read();
}

/// failure.json of a run.
void failure(Input input) {
  static const test::TemporaryFolder folder;
  std::ofstream(folder.path("failure.json"), std::ios::binary) << text_of(input);
  if (const auto read = read_failure(folder.path())) {
    failure_line(*read);
    note_read();
  }
}

/// A line of metrics.jsonl.
void metrics(Input input) {
  const std::string line = text_of(input);
  std::vector<report::MetricValue> values;
  if (!report::split_metrics_line(line, values)) return;
  for (const report::MetricValue& value : values) {
    report::metric_number(value.text);
    report::metric_text(value.text);
  }
  note_read();
}

/// metrics.jsonl, for reports and for tables of comparisons.
void runs(Input input) {
  const InputFile file(input);
  report::RunBuilder builder;
  report::RunRecord record;
  const auto damaged =
      report::read_metrics(file.path(), [&](const report::MetricsLine& line) { builder.take(line); });
  if (damaged.count == 0) note_read();
  builder.finish(record);
  figures_of(text_of(input), 0.5);
}

}  // namespace

std::vector<Target> text_targets() {
  return {{"deck", deck},       {"plan", plan},   {"image_list", image_list},
          {"metrics", metrics}, {"runs", runs},   {"class_names", class_names},
          {"slurm", slurm},     {"ranks", ranks}, {"control_groups", control_groups},
          {"failure", failure}};
}

}  // namespace flotilla::fuzz
