// SPDX-License-Identifier: Apache-2.0
#include "src/job/slurm.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<double> whole_number(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 0) return std::nullopt;
  return static_cast<double>(number);
}

std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// The output of a command, up to 4 KiB; empty if it fails.
std::string output_of(const std::string& command) {
  // No fork of this process's own: popen spawns, so MPI's memory is not copied.
  FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return "";
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  pclose(pipe);
  return text;
}

}  // namespace

std::optional<double> slurm_duration_s(std::string_view text) {
  double days = 0.0;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    const auto number = whole_number(text.substr(0, dash));
    if (!number) return std::nullopt;
    days = *number;
    text.remove_prefix(dash + 1);
  }
  const std::vector<std::string_view> parts = parts_of(text, ':');
  if (parts.size() > 3) return std::nullopt;
  double total = 0.0;
  for (const std::string_view part : parts) {
    const auto number = whole_number(part);
    if (!number) return std::nullopt;
    total = 60.0 * total + *number;
  }
  return 86400.0 * days + (parts.size() == 1 ? 60.0 * total : total);
}

SlurmTime slurm_time() {
  SlurmTime time{.job = environment("SLURM_JOB_ID")};
  if (!whole_number(time.job)) return {};
  if (const auto end_s = whole_number(environment("SLURM_JOB_END_TIME"))) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    time.left_s = *end_s - std::chrono::duration<double>(now).count();
    if (*time.left_s > 0.0) return time;
    time.left_s.reset();  // prolonged since, or of a job that is over, whose environment a shell still has
    time.unknown = "SLURM_JOB_END_TIME has passed";
    return time;
  }
  // The program blocks SIGTERM, and so does what it starts: only SIGKILL ends it.
  std::string left = output_of("timeout -s KILL 10 squeue -h -j " + time.job + " -o %L 2> /dev/null");
  left.resize(std::min(left.size(), left.find_first_of(" \n")));
  time.left_s = slurm_duration_s(left);
  if (!time.left_s && left != "UNLIMITED")
    time.unknown = left.empty() ? "squeue did not answer" : cat("squeue says \"", left, "\"");
  return time;
}

std::vector<std::string> slurm_jobs_of_user() {
  return slurm_jobs_in(
      output_of("timeout -s KILL 10 squeue --me -h -S -t -t PENDING,RUNNING -o '%i|%j|%T|%r' 2> /dev/null"));
}

std::vector<std::string> slurm_jobs_in(std::string_view lines) {
  constexpr std::size_t most = 3;
  std::vector<std::string> jobs;
  for (const std::string_view line : parts_of(lines, '\n')) {
    const std::vector<std::string_view> fields = parts_of(line, '|');
    if (fields.size() != 4 || jobs.size() == most) continue;
    jobs.push_back(fields[2] == "PENDING"
                       ? cat("job ", fields[0], " ", fields[1], " is pending (", fields[3], ")")
                       : cat("job ", fields[0], " ", fields[1], " is running"));
  }
  return jobs;
}

}  // namespace flotilla
