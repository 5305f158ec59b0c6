// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer.hpp"
#include "src/parameter_server/server/staleness_bound.hpp"
#include "src/parameter_server/server/update_mode.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

namespace {

/// Other workers' updates between a worker's pull and its next push: counts of 0, 1, 2, 3–4, 5–8 …
class StalenessHistogram {
 public:
  void add(std::int64_t updates);
  /// "staleness of 400 pushes: 0: 12 %, 1: 80 %, 2: 8 %; mean 0.96, most 2".
  std::string text() const;

 private:
  std::array<std::int64_t, 34> counts_{};
  std::int64_t pushes_ = 0;
  std::int64_t sum_ = 0;
  std::int64_t most_ = 0;
};

/// server.mode = "async", "half-async" and "geo": every push is applied at once and answered with the
/// server's values after it; pushes of steps that overflowed change nothing. Gradients are not divided by the
/// workers; differences (geo) have been. Where pushes arrive in parts, each part is applied, and parts of
/// several workers may alternate.
///
/// The loss sums that a worker receives are those of each worker's last push, and so is the mean staleness.
class AsyncUpdates : public UpdateMode {
 public:
  explicit AsyncUpdates(const Parts& parts);

  void take(const mpi::WorkerRequest& request) override;
  std::int64_t updates() const override { return updates_; }
  std::vector<std::string> report() const override;

 private:
  struct Worker {
    std::int64_t staleness = 0;  ///< Staleness of its last push that was applied: other workers' updates
    std::int64_t seen = 0;       ///< Number of updates when its last answer began
    /// Number of updates in the values that its next push was computed with: `seen`, or with a pipeline that
    /// of the answer before
    std::int64_t used = 0;
    std::optional<mpi::WorkerRequest> push{};               ///< The push that is not completely answered yet
    std::optional<std::int64_t> step{};                     ///< The optimizer step for that push
    std::size_t updated = 0;                                ///< Values of the push that the update has used
    std::size_t answered = 0;                               ///< Values that were sent back for the push
    bool learns() const { return push->head.batches > 0; }  ///< False: its steps overflowed
    std::array<float, header_floats> header_sums{};
  };

  void update(Worker& worker);
  void update(Worker& worker, std::size_t end);
  void learn(Worker& worker, std::size_t end);
  void finish(Worker& worker);
  void share_header(Worker& worker);
  void answer(Worker& worker);

  bool adds_differences_;
  std::vector<Worker> workers_;
  StalenessBound<> bound_;
  std::int64_t last_staleness_ = 0;  ///< Sum over the workers
  std::int64_t updates_ = 0;
  StalenessHistogram staleness_;
};

/// 0, 1, 2, 3–4, 5–8 …
std::size_t bin_of(std::int64_t updates) {
  if (updates <= 1) return static_cast<std::size_t>(updates);
  return 1 + static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(updates - 1)));
}

std::string name_of(std::size_t bin) {
  if (bin <= 2) return std::to_string(bin);
  const std::int64_t last = std::int64_t{1} << (bin - 1);
  return fmt::format("{}–{}", last / 2 + 1, last);
}

void StalenessHistogram::add(std::int64_t updates) {
  ++counts_[std::min(bin_of(updates), counts_.size() - 1)];
  ++pushes_;
  sum_ += updates;
  most_ = std::max(most_, updates);
}

std::string StalenessHistogram::text() const {
  std::string text = fmt::format("staleness of {} pushes:", pushes_);
  const double all = static_cast<double>(std::max<std::int64_t>(1, pushes_));
  const char* before = " ";
  for (std::size_t bin = 0; bin < counts_.size(); ++bin) {
    if (counts_[bin] == 0) continue;
    text +=
        fmt::format("{}{}: {:.1f} %", before, name_of(bin), 100.0 * static_cast<double>(counts_[bin]) / all);
    before = ", ";
  }
  return text + fmt::format("; mean {:.2f}, most {}", static_cast<double>(sum_) / all, most_);
}

AsyncUpdates::AsyncUpdates(const Parts& parts)
    : UpdateMode(parts),
      adds_differences_(parts.config.server()->mode == ServerMode::geo),
      workers_(static_cast<std::size_t>(parts.workers)),
      bound_(workers_.size(), parts.config.server()->max_staleness) {}

void AsyncUpdates::take(const mpi::WorkerRequest& request) {
  const auto index = static_cast<std::size_t>(request.worker);
  Worker& worker = workers_.at(index);
  switch (request.head.kind) {
    case mpi::RequestKind::pull:
      parts().requests.answer(request.worker, parts().shard.array(request.head.array));
      worker.seen = worker.used = updates_;
      return;
    case mpi::RequestKind::farewell:
      bound_.set_awaited(index, false);
      set_progress(request.worker, left);
      break;
    case mpi::RequestKind::push_pull:
      bound_.set_awaited(index, true);
      require(!worker.push || !worker.push->complete, "worker ", request.worker,
              " pushes before it was answered");
      worker.push = request;
      update(worker);
      if (worker.step) bound_.hold(index, request.complete);
      // A worker that is too far ahead to be answered waits for the others.
      set_progress(request.worker, request.complete ? 1 : 0);
      break;
    case mpi::RequestKind::rows:
      answer_rows(request);
      parts().requests.release(request);
      return;
    case mpi::RequestKind::pause: bound_.set_awaited(index, false); break;  // It waits for the others.
    case mpi::RequestKind::command: throw InternalError("a server cannot take this request");
  }
  bound_.release([this](std::size_t held) { answer(workers_[held]); });
}

/// Server 0 alone has them: the sums over the workers of what each pushed last, and the mean of its
/// staleness.
void AsyncUpdates::share_header(Worker& worker) {
  std::copy_n(worker.push->values.begin(), header_size, worker.header_sums.begin());
  float* sums = parts().shard.values().address();
  std::fill_n(sums, header_size, 0.0F);
  for (const Worker& other : workers_)
    for (std::size_t i = 0; i < header_size; ++i) sums[i] += other.header_sums[i];
  sums[header_staleness] =
      static_cast<float>(static_cast<double>(last_staleness_) / static_cast<double>(workers_.size()));
}

/// Updates with the part of the push that was received and not used yet.
void AsyncUpdates::update(Worker& worker) {
  if (worker.push->here < parts().shard.leading()) return;
  Optimizer& optimizer = parts().shard.optimizer();
  if (!worker.step)
    worker.step = adds_differences_ || !worker.learns() ? optimizer.steps() : optimizer.begin_step();
  if (worker.push->here > worker.updated) update(worker, worker.push->here);
  if (worker.push->complete) finish(worker);
}

void AsyncUpdates::update(Worker& worker, std::size_t end) {
  const trace::Span span("update");
  if (worker.updated == 0) {
    if (worker.learns()) {
      last_staleness_ -= std::exchange(worker.staleness, updates_ - worker.used);
      last_staleness_ += worker.staleness;
    }
    if (parts().shard.leading() > 0) share_header(worker);
  }
  if (worker.learns()) learn(worker, end);
  worker.updated = end;
}

void AsyncUpdates::learn(Worker& worker, std::size_t end) {
  Shard& shard = parts().shard;
  FlatMath& flat = shard.device().flat();
  const mpi::WorkerRequest& request = *worker.push;
  const DeviceSpan<const float> pushed(request.values.data(), request.values.size());
  const DeviceSpan<float> running = shard.statistics();
  if (worker.updated == 0 && !running.empty()) {
    if (!adds_differences_) flat.scale(running, statistics_decay(parts().micro_steps * request.head.batches));
    flat.axpy(1.0F, pushed.subspan(header_size, running.size()), running);
  }
  if (adds_differences_) {
    const std::size_t begin = std::max(worker.updated, shard.leading());
    flat.axpy(1.0F, pushed.subspan(begin, end - begin), shard.values().subspan(begin, end - begin));
  } else {
    shard.optimizer().step_part(shard.values(), pushed, request.head.learning_rate, 1.0,
                                {.step = *worker.step, .begin = worker.updated, .end = end});
  }
}

void AsyncUpdates::finish(Worker& worker) {
  const mpi::WorkerRequest& request = *worker.push;
  if (worker.learns() && !parts().rows.empty())
    parts().rows.push(std::span(&request.payload, 1), request.head.learning_rate,
                      1.0 / static_cast<double>(request.head.batches), *worker.step);
  answer_rows(request);
  parts().requests.release(request);
  bound_.count(static_cast<std::size_t>(request.worker));
  if (!worker.learns()) return;
  staleness_.add(worker.staleness);
  ++updates_;
}

/// Answers with the values that are updated; the last ones show the worker that all is done.
void AsyncUpdates::answer(Worker& worker) {
  const bool complete = worker.push->complete;
  const std::size_t size = parts().shard.size();
  if (!complete && worker.updated == size) return;
  if (worker.answered == 0) {
    const std::int64_t before = worker.seen;
    worker.seen = updates_ + (complete || !worker.learns() ? 0 : 1);
    worker.used = parts().config.server()->pipeline > 0 ? before : worker.seen;
  }
  parts().requests.answer(worker.push->worker, parts().shard.array(0), worker.updated);
  worker.answered = worker.updated;
  if (!complete) return;
  set_progress(worker.push->worker, 0);
  worker.push.reset();
  worker.step.reset();
  worker.updated = 0;
  worker.answered = 0;
}

std::vector<std::string> AsyncUpdates::report() const {
  std::vector<std::string> lines = parts().rows.report();
  lines.push_back(staleness_.text());
  return lines;
}

}  // namespace

std::unique_ptr<UpdateMode> make_async_updates(const UpdateMode::Parts& parts) {
  return std::make_unique<AsyncUpdates>(parts);
}

}  // namespace flotilla
