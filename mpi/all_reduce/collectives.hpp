// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device_queue.hpp"
#include "kernels/tensor.hpp"
#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/shared_memory.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

/// Sums arrays over ranks. Called by one thread at a time, in the same order with the same sizes on every
/// rank.
///
/// For each array, the computing thread calls ready() once it has queued all work on it; then any thread
/// calls all_reduce(), in the order of ready(). Before it uses the sums, the computing thread calls
/// wait_on_stream(), once for all calls of all_reduce() that have returned. all_reduce_now() does all three.
class Collectives {
 public:
  virtual ~Collectives() = default;
  virtual int ranks() const = 0;
  /// `data` is final. Does nothing where a device's work is complete when its calls return.
  virtual void ready(DeviceSpan<const float> /*data*/) {}
  /// Collective. data[i] ← Σ over ranks of data[i], in place, in an order that is the same in every run.
  /// The result has identical bits on every rank. @param at the same on all ranks
  virtual void all_reduce(DeviceSpan<float> data, CallSite at = {}) = 0;
  /// Work that is queued on the device from now on is ordered after the sums.
  virtual void wait_on_stream() {}
  /// Whether all_reduce() only queues work on the device and returns: the computing thread must call it then.
  virtual bool queues() const { return false; }
  /// The host waits for the work that all_reduce() queued.
  virtual void wait() {}
  /// Bytes that this rank sends (or writes to other ranks' memory) in one all_reduce of `count` floats.
  virtual std::size_t sent_bytes(std::size_t count) const = 0;
  /// Ranks that have not arrived at the collective in which this rank waits; empty if unknown or if it waits
  /// for none. Safe from another thread (the watchdog).
  virtual std::vector<int> missing_ranks() const { return {}; }
  /// An asynchronous error, in the library's words; empty: none. Safe from another thread.
  virtual std::string failure() const { return {}; }
};

/// Sums `data`, for work that is queued on the device next. Called by the computing thread.
inline void all_reduce_now(Collectives& collectives, DeviceSpan<float> data, CallSite at = {}) {
  collectives.ready(data);
  collectives.all_reduce(data, at);
  collectives.wait_on_stream();
}

// The following sum in the host's memory: `data` must be memory of a device that shares it. For other devices
// there is make_staged_all_reduce().

/// Flat, on a private copy of `group`. float32: MPI_Allreduce, or in the order of the tree the steps of
/// sum_tree.hpp. Another wire: these steps, with sums in float. The result does not depend on how the array
/// was cut into calls. Collective.
std::unique_ptr<Collectives> make_mpi_all_reduce(const Communicator& group, Wire wire = Wire::float32,
                                                 SumOrder order = SumOrder::any);

/// Over a scaled wire, flat, on a private copy of `group`: every rank sends each slice straight to the rank
/// that owns it, which adds the decoded values in float, in rank order, and sends the sum, encoded again, to
/// all; these decode the same bytes. A value is so rounded twice, by the rank that contributes it and by the
/// owner of its slice, whose own contribution is not rounded. Both keep what is left in the rounding's
/// errors, which are added to what the rank contributes next: over all ranks, contributions and errors before
/// are the sum and the errors after. A rank sends about 2 (n − 1) / n of the array in n − 1 messages each
/// way. The last bits depend on how the array was cut into calls. Collective. `rounding` must outlive it;
/// with one rank nothing is rounded.
std::unique_ptr<Collectives> make_scaled_all_reduce(const Communicator& group, Wire wire,
                                                    const WireRounding& rounding);

/// Zero-copy reduce-scatter + all-gather within a host; `data` must lie in storage.mine(). Every rank adds
/// its slice of all ranks' arrays, in the order of the tree, and writes the sum back to them. Collective.
/// `storage` must outlive it.
std::unique_ptr<Collectives> make_shared_memory_all_reduce(const Communicator& group, SharedStorage& storage);

/// Reduce-scatter inside the group, all-reduce across groups by every member on its slice, all-gather inside.
/// `group`: a part of `world`, this rank's (see topology.hpp). With a `storage` that holds `data` the inside
/// is done in it without copies, and the group's ranks must be of its host; it must outlive this. Without one
/// (null) the inside goes over MPI in float32. Across groups `wire` is used. With groups of different size
/// there are as many slices as the smallest group has members; the other members of the larger ones own no
/// slice. The sum is that over groups of the sums over their members; for the order of the tree over all
/// ranks the groups must be its subtrees (topology.hpp). @param rounding of a scaled wire; it must outlive
/// this. @param link across groups; null: the real one. Collective.
std::unique_ptr<Collectives> make_hierarchical_all_reduce(const Communicator& world,
                                                          const Communicator& group, SharedStorage* storage,
                                                          Wire wire = Wire::float32,
                                                          const WireRounding* rounding = nullptr,
                                                          EmulatedLink* link = nullptr);

/// Device memory that the host cannot access, and a host array of the same size that mirrors it. `host` is
/// empty where the device shares the host's memory, and with one rank.
struct Mirror {
  DeviceSpan<float> device;
  std::span<float> host;
};

/// All-reduce of device memory by way of the host: a part of mirror.device is copied to mirror.host, summed
/// there by `sums`, and copied back. The thread that sums also copies, while the device computes. With one
/// rank nothing is done. `queue` and the memory must outlive the result.
std::unique_ptr<Collectives> make_staged_all_reduce(DeviceQueue& queue, std::unique_ptr<Collectives> sums,
                                                    const Mirror& mirror);

}  // namespace flotilla::mpi
