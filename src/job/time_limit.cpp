// SPDX-License-Identifier: Apache-2.0
#include "src/job/time_limit.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fstream>
#include <sstream>

#include "kernels/error.hpp"
#include "src/observe/stopwatch.hpp"

namespace flotilla {

namespace {

/// A step or a checkpoint may take longer than any so far.
constexpr double safety_factor = 1.5;
/// Slurm shows jobs without a limit as ones of a year.
constexpr double as_good_as_none_s = 300.0 * 86400.0;

std::string seconds_text(double duration_s) {
  const auto whole = static_cast<std::int64_t>(std::max(0.0, duration_s));
  if (whole >= 3600) return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} s", whole);
}

}  // namespace

TimeLimit::TimeLimit(const RunConfig& config, const SlurmTime& slurm, double age_s, std::int64_t now_ns) {
  const auto end_after = [&](double left_s, double margin_s) {
    return End{now_ns + static_cast<std::int64_t>(left_s * 1e9), margin_s};
  };
  if (slurm.left_s && *slurm.left_s < as_good_as_none_s) {
    slurm_ = end_after(*slurm.left_s, config.stop_margin_s);
    text_ = cat("Slurm's, of job ", slurm.job, ", in ", seconds_text(*slurm.left_s));
  }
  if (config.time_limit_s > 0.0) {
    own_ = end_after(config.time_limit_s - age_s, 0.0);
    text_ +=
        cat(text_.empty() ? "" : "; ", "run.time_limit_s, in ", seconds_text(config.time_limit_s - age_s));
  }
  if (!text_.empty()) text_ += ": saves and stops before";
}

bool TimeLimit::reached(std::int64_t now_ns, const WorkToCome& work) const {
  const double needed_s = safety_factor * (static_cast<double>(work.steps) * work.step_s +
                                           static_cast<double>(work.catch_up_steps) * work.mean_step_s +
                                           static_cast<double>(work.saves) * work.save_s +
                                           static_cast<double>(work.validations) * work.validation_s);
  const auto too_late = [&](const std::optional<End>& end) {
    return end && seconds(end->at_ns - now_ns) <= std::max(end->margin_s, needed_s);
  };
  return too_late(slurm_) || too_late(own_);
}

bool TimeLimit::is_slurms(std::int64_t now_ns) const {
  const auto left_s = [&](const End& end) { return seconds(end.at_ns - now_ns) - end.margin_s; };
  return slurm_ && (!own_ || left_s(*slurm_) < left_s(*own_));
}

std::string TimeLimit::text() const {
  return text_;
}

double process_age_s() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // The name, in brackets, may hold blanks; the 22nd field is the start in ticks since the system's.
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0.0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  timespec now{};
  const double ticks_per_s = static_cast<double>(sysconf(_SC_CLK_TCK));
  if (!fields || ticks_per_s <= 0.0 || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return 0.0;
  const double start_s = std::stod(field) / ticks_per_s;
  return std::max(0.0, static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - start_s);
}

}  // namespace flotilla
