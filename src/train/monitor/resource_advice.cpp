// SPDX-License-Identifier: Apache-2.0
#include "src/train/monitor/resource_advice.hpp"

#include <algorithm>
#include <span>

#include "kernels/error.hpp"
#include "kernels/openmp_waiting.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

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
    reporter_.say(cat("input        ", input_text(times, "")));
  }
  if (!processors_said_ && waiting().stands_out()) {
    processors_said_ = true;
    reporter_.say(cat("processors   ", processor_text("")));
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
  reporter_.say(cat(label, text));
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
