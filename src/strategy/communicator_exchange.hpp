// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "models/worker_exchange.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"

namespace flotilla {

/// What layers need of the other workers, over a communicator of its own: the training thread waits in it
/// while the communication thread reduces buckets. Allocates nothing.
class CommunicatorExchange : public WorkerExchange {
 public:
  /// @param workers a communicator that nothing else uses
  explicit CommunicatorExchange(mpi::Communicator workers) : workers_(std::move(workers)) {}
  /// From now on a hang here is told as such. The watchdog must outlive the calls.
  void watch(mpi::Watchdog& watchdog) { watchdog_ = &watchdog; }

  int workers() const override { return workers_.size(); }
  void all_gather(std::span<const double> mine, std::span<double> all) override;
  std::int64_t waited_ns() const { return waited_ns_; }  ///< In all, for the other workers.

 private:
  mpi::Communicator workers_;
  mpi::Watchdog* watchdog_ = nullptr;
  std::int64_t waited_ns_ = 0;
};

}  // namespace flotilla
