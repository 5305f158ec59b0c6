// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/processor_waiting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "src/observe/stopwatch.hpp"

namespace flotilla {

std::int64_t ProcessorQueue::waited_ns() const {
  std::int64_t all = 0;
  for (const std::int64_t thread : threads_) {
    std::ifstream file(fmt::format("/proc/self/task/{}/schedstat", thread));
    std::int64_t ran = 0;
    std::int64_t waited = 0;
    if (file >> ran >> waited) all += waited;
  }
  return all;
}

double ProcessorWaiting::share() const {
  return span_ns > 0 ? std::clamp(static_cast<double>(queued_ns) / static_cast<double>(span_ns), 0.0, 1.0)
                     : 0.0;
}

bool ProcessorWaiting::stands_out() const {
  constexpr double worth_a_word = 0.25;   // of the time
  constexpr double worth_a_word_s = 0.5;  // less is a hiccup of the machine
  return share() >= worth_a_word && seconds(queued_ns) > worth_a_word_s;
}

std::string processor_advice(const ProcessorWaiting& waiting, const ProcessorMeans& means,
                             const std::string& worker) {
  const std::string text = fmt::format(
      "were taken {:.0f} % of the time, while {} had something to compute: ", 100.0 * waiting.share(),
      worker.empty() ? "a thread" : "a thread of " + worker);
  const std::string cores = fmt::format("{} core{}", means.cores, means.cores == 1 ? "" : "s");
  if (means.threads > means.cores)
    return fmt::format("{}{} threads share {}; set device.threads = 0, which takes what fits", text,
                       means.threads, cores);
  if (means.bound && means.threads == means.cores)
    return fmt::format(
        "{}this rank is bound to {}, which reading and communication use too: give it more where there are "
        "more (mpirun --bind-to none, srun --cpus-per-task={}), and end what else runs there",
        text, cores, means.cores + 1);
  return text +
         "end what else runs there, ask for cores of your own (srun --exclusive, a whole node), or start "
         "fewer ranks or threads";
}

}  // namespace flotilla
