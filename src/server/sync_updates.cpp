// SPDX-License-Identifier: Apache-2.0
#include "src/server/sync_updates.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "models/layer.hpp"
#include "src/train/buckets.hpp"

namespace flotilla {

SyncUpdates::SyncUpdates(const Parts& parts)
    : UpdateMode(parts),
      pushes_(static_cast<std::size_t>(parts.workers)),
      left_(static_cast<std::size_t>(parts.workers)),
      norms_(parts.servers, parts.shard.tensors_of_blocks(), parts.shard.tensors()),
      present_(parts.workers) {
  if (parts.config.server.slice_parameters)
    parts.shard.optimizer().complete_norms_with(
        [this](std::span<double> first, std::span<double> second) { norms_.complete(first, second); });
  if (parts.workers > 1) sum_ = parts.shard.device().allocate(parts.shard.size());
}

void SyncUpdates::take(const mpi::WorkerRequest& request) {
  const auto worker = static_cast<std::size_t>(request.worker);
  switch (request.head.kind) {
    case mpi::RequestKind::pull:
      parts().requests.answer(request.worker, parts().shard.array(request.head.array));
      return;
    case mpi::RequestKind::farewell:
      left_[worker] = true;
      --present_;
      break;
    case mpi::RequestKind::push_pull:
      require(!pushes_[worker], "worker ", request.worker, " pushes twice in a step");
      pushes_[worker] = request;
      ++pushed_;
      break;
    case mpi::RequestKind::rows:
      // Every worker's last push is in them: nobody goes on before that.
      answer_rows(request);
      parts().requests.release(request);
      return;
    case mpi::RequestKind::pause: return;  // All wait for all.
    case mpi::RequestKind::command:
    case mpi::RequestKind::push: throw InternalError("a synchronous server cannot take this request");
  }
  if (pushed_ > 0 && pushed_ == present_) update();
  for (std::size_t i = 0; i < pushes_.size(); ++i) wait_for(i, pushed_ > 0 && !left_[i] && !pushes_[i]);
}

/// Of what the workers pushed; theirs alone where there is but one.
DeviceSpan<const float> SyncUpdates::sum() {
  FlatMath& flat = parts().shard.device().flat();
  int added = 0;
  DeviceSpan<const float> sum;
  for (const auto& push : pushes_) {
    if (!push) continue;
    const DeviceSpan<const float> values(push->values.data(), push->values.size());
    if (pushed_ == 1) return values;
    if (added++ == 0) {
      flat.copy(values, sum_.span());
    } else {
      flat.axpy(1.0F, values, sum_.span());
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

/// Whether some worker's gradients overflowed. Every server hears it from every worker.
bool SyncUpdates::skips() const {
  return std::ranges::any_of(pushes_, [](const auto& push) { return push && push->head.batches == 0; });
}

void SyncUpdates::learn(DeviceSpan<const float> gradients, double learning_rate) {
  Shard& shard = parts().shard;
  const double share = 1.0 / static_cast<double>(pushed_);
  if (const DeviceSpan<float> running = shard.statistics(); !running.empty()) {
    FlatMath& flat = shard.device().flat();
    flat.scale(running, statistics_decay(parts().micro_steps));
    flat.axpy(static_cast<float>(share),
              gradients.subspan(static_cast<std::size_t>(passenger_floats), running.size()), running);
  }
  const auto of_parameters = gradients.subspan(shard.leading(), gradients.size() - shard.leading());
  shard.optimizer().step(shard.values(), gradients, learning_rate, share * clip_factor(of_parameters, share));
  ++updates_;
  if (parts().rows.empty()) return;
  payloads_.clear();
  for (const auto& push : pushes_)
    if (push) payloads_.push_back(push->payload);
  parts().rows.push(payloads_, learning_rate, share, shard.optimizer().steps());
}

void SyncUpdates::update() {
  const trace::Span span("update");
  Shard& shard = parts().shard;
  FlatMath& flat = shard.device().flat();
  const auto first = std::ranges::find_if(pushes_, [](const auto& push) { return push.has_value(); });
  const double learning_rate = (*first)->head.learning_rate;
  const DeviceSpan<const float> gradients = sum();
  const auto passengers = static_cast<std::size_t>(passenger_floats);
  if (shard.leading() > 0) flat.copy(gradients.subspan(0, passengers), shard.values().subspan(0, passengers));
  if (!skips()) learn(gradients, learning_rate);
  for (auto& push : pushes_) {
    if (!push) continue;
    answer_rows(*push);
    parts().requests.release(*push);
    // It stays as it is until all of them have pushed again.
    parts().requests.answer_in_place(push->worker, shard.array(0));
    push.reset();
  }
  pushed_ = 0;
}

}  // namespace flotilla
