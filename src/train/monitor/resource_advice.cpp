// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/resource_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "kernels/error.hpp"
#include "kernels/openmp_waiting.hpp"
#include "kernels/trace.hpp"
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
        "{}this rank is bound to {}, which reading and communication use too: give it more if the host has "
        "spare ones (mpirun --bind-to none, srun --cpus-per-task={}), and stop other programs there",
        text, cores, means.cores + 1);
  return text +
         "stop other programs there, ask for cores of your own (srun --exclusive, a whole node), or start "
         "fewer ranks or threads";
}

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

ResourceAdvice::ResourceAdvice(const Config& config, const mpi::Communicator& workers,
                               const std::vector<mpi::Place>& places, Reporter& reporter)
    : config_(config),
      workers_(workers),
      places_(places),
      reporter_(reporter),
      queue_(flotilla::computing_threads(computing_threads())) {}

void ResourceAdvice::leave_out(const InputTimes& so_far) {
  left_out_ = so_far;
  left_out_queued_ns_ = queue_.waited_ns();
  begin_ns_ = trace::now_ns();
}

void ResourceAdvice::report(const InputTimes& so_far) {
  if (const InputTimes times = counted(so_far); !input_said_ && times.stands_out()) {
    input_said_ = true;
    reporter_.say(cat("input        ", input_text(times, "")), Message::detail);
  }
  if (!processors_said_ && waiting().stands_out()) {
    processors_said_ = true;
    reporter_.say(cat("processors   ", processor_text("")), Message::detail);
  }
}

void ResourceAdvice::report_whole(const InputTimes& so_far) {
  const InputTimes times = counted(so_far);
  say_of_worst("input        in the whole run ", times.stands_out() ? times.wait_share() : 0.0,
               [&](const std::string& worker) { return input_text(times, worker); });
  const ProcessorWaiting own = waiting();
  say_of_worst("processors   in the whole run ", own.stands_out() ? own.share() : 0.0,
               [this](const std::string& worker) { return processor_text(worker); });
}

/// Collective. Reports the advice of the worker with the largest share; nothing where all are 0.
/// @param advice for this worker, given its name where there are several
void ResourceAdvice::say_of_worst(const char* label, double share,
                                  const std::function<std::string(const std::string& worker)>& advice) {
  const std::vector<double> shares = workers_.all_gather(std::span<const double>(&share, 1));
  const auto worst = std::ranges::max_element(shares);
  if (*worst == 0.0) return;
  const auto worker = static_cast<int>(worst - shares.begin());
  const mpi::Place& place = places_[static_cast<std::size_t>(worker)];
  std::string text = advice(shares.size() == 1 ? "" : cat("rank ", place.rank, " on ", place.host));
  workers_.broadcast(text, worker);
  reporter_.advise(*worst * seconds(trace::now_ns() - begin_ns_), cat(label, text));
}

std::string ResourceAdvice::input_text(const InputTimes& times, const std::string& worker) const {
  const auto neighbours = std::ranges::count(places_, own_place().host_index, &mpi::Place::host_index);
  return input_advice(times,
                      {.threads = config_.data.threads,
                       .prefetch = config_.data.prefetch,
                       .cores = mpi::default_threads(own_place()),
                       .computing = computing_threads(),
                       // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): this rank is among its neighbours
                       .spare = own_place().host_cores / neighbours - computing_threads()},
                      worker);
}

ProcessorWaiting ResourceAdvice::waiting() const {
  return {.span_ns = trace::now_ns() - begin_ns_, .queued_ns = queue_.waited_ns() - left_out_queued_ns_};
}

std::string ResourceAdvice::processor_text(const std::string& worker) const {
  const mpi::Place& place = own_place();
  return processor_advice(waiting(),
                          {.threads = computing_threads(),
                           .cores = std::max(1, place.cores / std::max(1, place.cores_shared_by)),
                           .bound = place.cores < place.host_cores},
                          worker);
}

/// OpenMP's, that one operation takes.
int ResourceAdvice::computing_threads() const {
  if (config_.device.kind != DeviceKind::cpu) return 1;
  return config_.device.threads > 0 ? static_cast<int>(config_.device.threads)
                                    : mpi::default_threads(own_place());
}

}  // namespace flotilla
