// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer.hpp"
#include "mpi/core/communicator.hpp"
#include "src/parameter_server/server/staleness_bound.hpp"
#include "src/parameter_server/server/update_mode.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

namespace {

/// Norms of whole tensors whose blocks lie on several servers, for optimizers that need them.
class TensorNorms {
 public:
  /// @param tensors_of_blocks the tensor of each of this server's blocks, in the arena's order
  TensorNorms(const mpi::Communicator& servers, std::vector<std::size_t> tensors_of_blocks,
              std::size_t tensors);

  /// Collective over the servers. In: norms of this server's blocks, of two arrays. Out: those of their whole
  /// tensors, with the servers' squares added in order, so that the bits are equal on each. Allocates
  /// nothing.
  void complete(std::span<double> first, std::span<double> second);

 private:
  const mpi::Communicator& servers_;
  std::vector<std::size_t> tensors_of_blocks_;
  std::size_t tensors_;
  std::vector<double> mine_;  ///< Squares, (2, tensors)
  std::vector<double> all_;   ///< (servers, 2, tensors)
};

TensorNorms::TensorNorms(const mpi::Communicator& servers, std::vector<std::size_t> tensors_of_blocks,
                         std::size_t tensors)
    : servers_(servers),
      tensors_of_blocks_(std::move(tensors_of_blocks)),
      tensors_(tensors),
      mine_(2 * tensors),
      all_(mine_.size() * static_cast<std::size_t>(servers.size())) {}

void TensorNorms::complete(std::span<double> first, std::span<double> second) {
  const std::size_t blocks = tensors_of_blocks_.size();
  require(first.size() == blocks && second.size() == blocks, "norms of ", first.size(), " and ",
          second.size(), " blocks, this server has ", blocks);
  std::ranges::fill(mine_, 0.0);
  for (std::size_t i = 0; i < blocks; ++i) {
    mine_[tensors_of_blocks_[i]] += first[i] * first[i];
    mine_[tensors_ + tensors_of_blocks_[i]] += second[i] * second[i];
  }
  servers_.all_gather(std::span<const double>(mine_), std::span(all_));
  std::ranges::fill(mine_, 0.0);
  for (std::size_t i = 0; i < all_.size(); ++i) mine_[i % mine_.size()] += all_[i];
  for (std::size_t i = 0; i < blocks; ++i) {
    first[i] = std::sqrt(mine_[tensors_of_blocks_[i]]);
    second[i] = std::sqrt(mine_[tensors_ + tensors_of_blocks_[i]]);
  }
}

/// server.mode = "sync": an update once every worker that has not left has pushed, with the mean of their
/// gradients, added in the order of the workers: what an all-reduce gives. A step that overflowed on any
/// worker changes nothing. Where gradients arrive in parts, the values that all have pushed are updated and
/// sent back while the next ones arrive.
class SyncUpdates : public UpdateMode {
 public:
  explicit SyncUpdates(const Parts& parts);

  void take(const mpi::WorkerRequest& request) override;
  std::int64_t updates() const override { return updates_; }
  std::vector<std::string> report() const override { return parts().rows.report(); }

 private:
  void update();
  void update(std::size_t end);
  bool skips() const;
  void answer(std::size_t ready);
  void finish();
  DeviceSpan<const float> sum(std::size_t begin, std::size_t end);
  double clip_factor(DeviceSpan<const float> gradients, double scale) const;
  double learning_rate() const;

  std::vector<std::optional<mpi::WorkerRequest>>
      pushes_;  ///< Pushes of this step, by worker, as far as received
  TensorNorms norms_;
  int present_ = 0;                                   ///< Workers that have not left
  int pushed_ = 0;                                    ///< Workers that have pushed in this step
  int complete_ = 0;                                  ///< Workers whose push of this step is all here
  std::int64_t pushed_step_ = 0;                      ///< The step that they push
  LeastCount<> here_;                                 ///< Values that are here of each push of this step
  std::optional<std::int64_t> step_;                  ///< The optimizer step, once it has begun
  std::size_t updated_ = 0;                           ///< Values that were updated in this step
  Storage sum_;                                       ///< Sum of the workers' gradients
  std::vector<std::span<const std::byte>> payloads_;  ///< Payloads of this step, in the order of the workers
  std::int64_t updates_ = 0;
};

SyncUpdates::SyncUpdates(const Parts& parts)
    : UpdateMode(parts),
      pushes_(static_cast<std::size_t>(parts.workers)),
      norms_(parts.servers, parts.shard.tensors_of_blocks(), parts.shard.tensors()),
      present_(parts.workers) {
  if (parts.config.server()->slice_parameters)
    parts.shard.optimizer().complete_norms_with(
        [this](std::span<double> first, std::span<double> second) { norms_.complete(first, second); });
  if (parts.workers > 1) sum_ = parts.shard.device().memory().allocate(parts.shard.size());
}

void SyncUpdates::take(const mpi::WorkerRequest& request) {
  const auto worker = static_cast<std::size_t>(request.worker);
  switch (request.head.kind) {
    case mpi::RequestKind::pull:
      parts().requests.answer(request.worker, parts().shard.array(request.head.array));
      return;
    case mpi::RequestKind::farewell:
      set_progress(request.worker, left);
      --present_;
      break;
    case mpi::RequestKind::push_pull:
      require(!pushes_[worker] || !pushes_[worker]->complete, "worker ", request.worker,
              " pushes twice in a step");
      if (pushed_ == 0) pushed_step_ = request.head.step;
      require(request.head.step == pushed_step_, "worker ", request.worker, " pushes step ",
              request.head.step, ", another worker step ", pushed_step_);
      if (pushes_[worker])
        here_.remove(static_cast<std::int64_t>(pushes_[worker]->here));
      else
        ++pushed_;
      here_.add(static_cast<std::int64_t>(request.here));
      if (request.complete) ++complete_;
      set_progress(request.worker, request.here + (request.complete ? 1 : 0));
      pushes_[worker] = request;
      break;
    case mpi::RequestKind::rows:
      // They include every worker's last push: no worker goes on before the update.
      answer_rows(request);
      parts().requests.release(request);
      return;
    case mpi::RequestKind::pause: return;  // All wait for all.
    case mpi::RequestKind::command: throw InternalError("a synchronous server cannot take this request");
  }
  if (pushed_ > 0 && pushed_ == present_) update();
}

/// The sum of the pushed values in [begin, end); the values themselves where only one worker has pushed.
DeviceSpan<const float> SyncUpdates::sum(std::size_t begin, std::size_t end) {
  FlatMath& flat = parts().shard.device().flat();
  int added = 0;
  for (const auto& push : pushes_) {
    if (!push) continue;
    const DeviceSpan<const float> values(push->values.data(), push->values.size());
    if (pushed_ == 1) return values;
    const auto part = values.subspan(begin, end - begin);
    const auto to = sum_.span().subspan(begin, end - begin);
    if (added++ == 0) {
      flat.copy(part, to);
    } else {
      flat.axpy(1.0F, part, to);
    }
  }
  return sum_.span();
}

/// The servers' partial sums of squares, added in their order: the same on each.
double SyncUpdates::clip_factor(DeviceSpan<const float> gradients, double scale) const {
  const double max_norm = parts().config.train.gradient_clip_norm;
  if (max_norm <= 0.0) return 1.0;
  const double mine = parts().shard.device().flat().sum_of_squares(gradients);
  double squares = 0.0;
  for (const double part : parts().servers.all_gather(std::span(&mine, 1))) squares += part;
  return flotilla::clip_factor(squares, scale, max_norm);
}

/// Whether some worker's gradients overflowed. Every worker reports it to every server.
bool SyncUpdates::skips() const {
  return std::ranges::any_of(pushes_, [](const auto& push) { return push && push->head.batches == 0; });
}

/// Updates the values that all workers have pushed and that were not updated yet.
void SyncUpdates::update() {
  const auto here = static_cast<std::size_t>(here_.least());
  if (here < parts().shard.leading()) return;
  // Once even where this server has nothing: all servers take part in computing the norms.
  const bool first = !step_;
  Optimizer& optimizer = parts().shard.optimizer();
  if (first) step_ = skips() ? optimizer.steps() : optimizer.begin_step();
  const bool updates = first || here > updated_;
  if (updates) update(here);
  // The last values show a worker that all is done, rows included.
  if (complete_ == pushed_) {
    finish();
  } else if (updates && here < parts().shard.size()) {
    answer(here);
  }
}

void SyncUpdates::update(std::size_t end) {
  const trace::Span span("update");
  Shard& shard = parts().shard;
  FlatMath& flat = shard.device().flat();
  const DeviceSpan<const float> gradients = sum(updated_, end);
  const double share = 1.0 / static_cast<double>(pushed_);
  const bool begins = updated_ == 0 && shard.leading() > 0;
  if (begins) flat.copy(gradients.subspan(0, header_size), shard.values().subspan(0, header_size));
  const std::size_t begin = std::exchange(updated_, end);
  if (skips()) return;
  if (const DeviceSpan<float> running = shard.statistics(); begins && !running.empty()) {
    flat.scale(running, statistics_decay(parts().micro_steps));
    flat.axpy(static_cast<float>(share), gradients.subspan(header_size, running.size()), running);
  }
  const auto of_parameters = gradients.subspan(shard.leading(), gradients.size() - shard.leading());
  const double scale = share * clip_factor(of_parameters, share);
  shard.optimizer().step_part(shard.values(), gradients, learning_rate(), scale,
                              {.step = *step_, .begin = begin, .end = end});
}

void SyncUpdates::answer(std::size_t ready) {
  // They stay as they are until all workers have pushed again.
  for (const auto& push : pushes_)
    if (push) parts().requests.answer_in_place(push->worker, parts().shard.array(0), ready);
}

void SyncUpdates::finish() {
  const bool learned = !skips();
  if (learned && !parts().rows.empty()) {
    payloads_.clear();
    for (const auto& push : pushes_)
      if (push) payloads_.push_back(push->payload);
    parts().rows.push(payloads_, learning_rate(), 1.0 / static_cast<double>(pushed_), *step_);
  }
  for (const auto& push : pushes_) {
    if (!push) continue;
    answer_rows(*push);
    parts().requests.release(*push);
    set_progress(push->worker, 0);
  }
  answer(parts().shard.size());
  std::ranges::fill(pushes_, std::nullopt);
  here_ = {};
  pushed_ = complete_ = 0;
  step_.reset();
  updated_ = 0;
  if (learned) ++updates_;
}

double SyncUpdates::learning_rate() const {
  return std::ranges::find_if(pushes_, [](const auto& push) { return push.has_value(); })
      ->value()
      .head.learning_rate;
}

}  // namespace

std::unique_ptr<UpdateMode> make_sync_updates(const UpdateMode::Parts& parts) {
  return std::make_unique<SyncUpdates>(parts);
}

}  // namespace flotilla
