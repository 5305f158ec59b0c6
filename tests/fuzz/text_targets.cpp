// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "kernels/machine/processors.hpp"
#include "mpi/core/rank_list.hpp"
#include "src/compare/plan.hpp"
#include "src/config/deck.hpp"
#include "src/data/images/image_list.hpp"
#include "src/job/slurm.hpp"
#include "src/report/metrics_line.hpp"
#include "tests/fuzz/fuzz_targets.hpp"

// What people and the system write as text.

namespace flotilla::fuzz {

namespace {

/// A deck; behind a byte 0 overrides, one a line.
void deck(Input input) {
  const TwoInputs parts = split(input);
  DeckSource source{.path = "/nowhere/deck.toml", .text = text_of(parts.first), .overrides = {}};
  std::istringstream lines(text_of(parts.second));
  for (std::string line; std::getline(lines, line);) source.overrides.push_back(line);
  try {
    load_deck(source);
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void plan(Input input) {
  read_plan("/nowhere/plan.toml", text_of(input));  // mistakes are returned
}

void image_list(Input input) {
  const InputFile file(input);
  for (const bool labelled : {true, false}) {
    try {
      read_image_list(file.path(), {.root = "/nowhere",
                                    .classes = 10,
                                    .unique = labelled,
                                    .missing_allowed = true,
                                    .root_key = "data.train.root",
                                    .labelled = labelled});
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

/// The variables of a Slurm job, and what squeue says.
void slurm(Input input) {
  const std::string text = text_of(split(input).first);
  slurm_duration_s(text);
  for (const char* name : {"SLURM_JOB_END_TIME", "SLURM_CPUS_ON_NODE", "SLURM_PROCID", "SLURM_NTASKS"})
    setenv(name, text.c_str(), 1);
  slurm_tasks_disconnected();
  slurm_first_task();
  mpi::find_processors();
}

void ranks(Input input) {
  const std::string text = text_of(input);
  mpi::parse_processor_list(text);
  try {
    mpi::parse_ranks(text, 64, "roles.server_ranks");
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// The files of control groups: /proc/self/cgroup, and behind a byte 0 what every file of a group holds.
void control_groups(Input input) {
  namespace fs = std::filesystem;
  static const fs::path root = fs::temp_directory_path() / ("fuzz-" + std::to_string(getpid()));
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
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "sys/fs/cgroup/cpu/job/cpu.cfs_period_us"})
    save(root / file, parts.second);
  available_memory_bytes(root.string());
  mpi::find_processors(root.string());
}

void metrics(Input input) {
  const std::string line = text_of(input);
  std::vector<report::MetricValue> values;
  if (!report::split_metrics_line(line, values)) return;
  for (const report::MetricValue& value : values) {
    report::metric_number(value.text);
    report::metric_text(value.text);
  }
}

}  // namespace

std::vector<Target> text_targets() {
  return {{"deck", deck},   {"plan", plan},       {"image_list", image_list},        {"slurm", slurm},
          {"ranks", ranks}, {"metrics", metrics}, {"control_groups", control_groups}};
}

}  // namespace flotilla::fuzz
