// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "models/worker_exchange.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"

namespace flotilla {

/// The communication of layers with other workers, over a communicator of its own, because the training
/// thread waits in it while the communication thread reduces buckets. Allocates nothing.
class CommunicatorExchange : public WorkerExchange {
 public:
  /// @param workers a communicator that nothing else uses
  explicit CommunicatorExchange(mpi::Communicator workers) : workers_(std::move(workers)) {}
  /// From now on the watchdog reports a hang in these calls as such. It must outlive them.
  void watch(mpi::Watchdog& watchdog) { watchdog_ = &watchdog; }

  int workers() const override { return workers_.size(); }
  void all_gather(std::span<const double> mine, std::span<double> all) override;
  std::int64_t waited_ns() const { return waited_ns_; }  ///< Total wait for the other workers.

 private:
  mpi::Communicator workers_;
  mpi::Watchdog* watchdog_ = nullptr;
  std::int64_t waited_ns_ = 0;
};

}  // namespace flotilla
