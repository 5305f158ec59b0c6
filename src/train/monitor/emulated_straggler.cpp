// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/emulated_straggler.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

EmulatedStraggler::EmulatedStraggler(const EmulatedStragglerConfig& config, int rank, int workers)
    : config_(config), rank_(rank), workers_(workers) {
  if (config.rank >= workers)
    throw UserError(cat("run.emulate_straggler.rank = ", config.rank, ", but there ",
                        workers == 1 ? "is 1 worker" : cat("are ", workers, " workers"), ": give at most ",
                        workers - 1));
}

std::int64_t EmulatedStraggler::pause(std::int64_t step, std::int64_t compute_ns) const {
  if (!emulates() || step % config_.every != 0) return 0;
  const std::int64_t turn = config_.take_turns ? step / config_.every : 0;
  if ((config_.rank + turn) % workers_ != rank_) return 0;
  const double pause_ns = config_.pause_s > 0.0
                              ? config_.pause_s * 1e9
                              : (config_.slow_factor - 1.0) * static_cast<double>(compute_ns);
  const trace::Span span("emulated pause");
  const std::int64_t begin_ns = trace::now_ns();
  std::this_thread::sleep_for(std::chrono::nanoseconds(std::llround(pause_ns)));
  return trace::now_ns() - begin_ns;
}

std::string EmulatedStraggler::description() const {
  if (config_.rank < 0) return "";
  return fmt::format("{}rank {} {}{}", config_.take_turns ? "in turn, beginning with " : "", config_.rank,
                     config_.pause_s > 0.0 ? fmt::format("pauses {} s", config_.pause_s)
                                           : fmt::format("computes {} times as long", config_.slow_factor),
                     config_.every == 1 ? "" : fmt::format(" in every {} steps the first", config_.every));
}

}  // namespace flotilla
