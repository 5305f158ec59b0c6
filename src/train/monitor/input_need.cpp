// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/input_need.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "src/observe/stopwatch.hpp"

namespace flotilla {

InputTimes& InputTimes::operator-=(const InputTimes& other) {
  step_ns -= other.step_ns;
  wait_ns -= other.wait_ns;
  read_ns -= other.read_ns;
  comm_ns -= other.comm_ns;
  return *this;
}

double InputTimes::wait_share() const {
  return step_ns > 0 ? std::clamp(static_cast<double>(wait_ns) / static_cast<double>(step_ns), 0.0, 1.0)
                     : 0.0;
}

std::int64_t InputTimes::threads_needed() const {
  const std::int64_t used_ns = std::max<std::int64_t>(1, step_ns - wait_ns - comm_ns);
  return std::max<std::int64_t>(1, (read_ns + used_ns - 1) / used_ns);
}

bool InputTimes::stands_out() const {
  constexpr double worth_a_word = 0.1;    // of the steps' time
  constexpr double worth_a_word_s = 0.1;  // less is a hiccup of the machine
  return wait_share() >= worth_a_word && seconds(wait_ns) > worth_a_word_s;
}

std::string input_advice(const InputTimes& times, const InputMeans& means, const std::string& worker) {
  const std::string took = fmt::format("took {:.0f} % of the time{}{}", 100.0 * times.wait_share(),
                                       worker.empty() ? "" : " of ", worker);
  const std::int64_t needed = times.threads_needed();
  if (needed <= means.threads) {
    const std::string enough =
        fmt::format("{}, though {} data.threads read fast enough on average", took, means.threads);
    if (means.cores > means.computing)
      return fmt::format("{}: a larger data.prefetch ({} now) may help", enough, means.prefetch);
    // They take turns with what computes: batches read further ahead take as long.
    if (means.spare > 0)
      return fmt::format(
          "{}, on the cores that compute: give each rank one more (mpirun --bind-to none, srun "
          "--cpus-per-task={})",
          enough, means.computing + 1);
    return enough +
           ", on the cores that compute, and this host has no others: fewer ranks or "
           "device.threads there may help, a larger data.prefetch does not";
  }
  return fmt::format("{}: about {} data.threads would keep up ({} now){}", took, needed, means.threads,
                     needed > means.cores ? fmt::format("; this rank's share of its host is {} core{}",
                                                        means.cores, means.cores == 1 ? "" : "s")
                                          : "");
}

}  // namespace flotilla
