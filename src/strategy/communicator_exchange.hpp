// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "models/layer.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"

namespace flotilla {

/// The communication of layers with other workers, over a communicator of its own, because the training
/// thread waits in it while the communication thread reduces buckets. Through the memory of the host, until
/// use_nccl(). all_reduce() allocates nothing.
class CommunicatorExchange : public WorkerExchange {
 public:
  /// @param workers a communicator that nothing else uses
  /// @param device on which the layers compute; it must outlive this
  CommunicatorExchange(mpi::Communicator workers, Device& device);
  /// From now on the watchdog reports a hang in these calls as such. It must outlive them.
  void watch(mpi::Watchdog& watchdog) { watchdog_ = &watchdog; }
  /// Collective. From now on arrays are exchanged by NCCL, without the host. `lanes`: the all-reduces that
  /// queue work of other NCCL communicators meanwhile; each exchange is ordered after what they have queued,
  /// since NCCL forbids that two communicators run at once in an order that ranks do not share. They must
  /// outlive it.
  void use_nccl(std::span<const std::unique_ptr<mpi::Collectives>> lanes);

  int workers() const override { return workers_.size(); }
  void reserve(std::size_t count) override;
  void all_reduce(DeviceSpan<double> values) override;
  std::int64_t waited_ns() const { return waited_ns_; }  ///< Total wait of the host for the other workers.
  std::string failure() const;  ///< An asynchronous error of NCCL; empty: none. Safe from another thread.

 private:
  void all_reduce_on_host(std::span<double> values);

  mpi::Communicator workers_;
  Device& device_;
  Storage staging_;  ///< The values in pinned memory; empty if not needed
  std::unique_ptr<mpi::DeviceSums> nccl_;
  std::vector<mpi::Collectives*> lanes_;
  mpi::Watchdog* watchdog_ = nullptr;
  std::int64_t waited_ns_ = 0;
};

}  // namespace flotilla
