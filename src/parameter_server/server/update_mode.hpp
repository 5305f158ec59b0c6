// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mpi/push_pull/push_pull_server.hpp"
#include "src/parameter_server/server/row_store.hpp"
#include "src/parameter_server/server/shard.hpp"

namespace flotilla {

/// When a server updates, and when it answers which worker (docs/fleet.md, "Parameter servers").
class UpdateMode {
 public:
  struct Parts {
    Shard& shard;
    RowStore& rows;
    mpi::PushPullServer& requests;
    const mpi::Communicator& servers;
    const Config& config;
    std::int64_t micro_steps = 1;
    int workers = 1;
  };
  explicit UpdateMode(const Parts& parts)
      : parts_(parts), progress_(static_cast<std::size_t>(parts.workers)) {}
  virtual ~UpdateMode() = default;

  /// Handles a request. It is answered and released, now or with a later one.
  virtual void take(const mpi::WorkerRequest& request) = 0;
  virtual std::int64_t updates() const = 0;                       ///< Done since the start
  virtual std::vector<std::string> report() const { return {}; }  ///< Lines about the whole run
  /// Indices of workers whose push the others wait for: another is further. Safe from another thread.
  std::vector<int> missing_workers() const {
    std::size_t most = 0;
    for (const auto& progress : progress_)
      if (const std::size_t value = progress.load(std::memory_order_relaxed); value != left)
        most = std::max(most, value);
    std::vector<int> missing;
    for (std::size_t i = 0; i < progress_.size(); ++i)
      if (progress_[i].load(std::memory_order_relaxed) < most) missing.push_back(static_cast<int>(i));
    return missing;
  }

 protected:
  /// Answers with the rows that the request asks for, if any.
  void answer_rows(const mpi::WorkerRequest& request) {
    if (request.head.reply_bytes == 0) return;
    const std::span<std::byte> room = parts_.requests.reply_room(request.worker);
    parts_.rows.answer(request.payload, room);
    parts_.requests.answer_payload(request.worker, room);
  }
  /// How far the worker's push has come, in whatever unit the mode has; `left`: the worker has left.
  void set_progress(int worker, std::size_t progress) {
    progress_[static_cast<std::size_t>(worker)].store(progress, std::memory_order_relaxed);
  }
  static constexpr std::size_t left = std::numeric_limits<std::size_t>::max();
  const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
  std::vector<std::atomic<std::size_t>> progress_;  ///< By worker
};

/// server.mode = "sync".
std::unique_ptr<UpdateMode> make_sync_updates(const UpdateMode::Parts& parts);

/// server.mode = "async", "half-async" and "geo".
std::unique_ptr<UpdateMode> make_async_updates(const UpdateMode::Parts& parts);

}  // namespace flotilla
