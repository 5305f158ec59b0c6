// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/trace.hpp"
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

/// A thread that communicates in parallel with the computation: it performs calls, such as all-reduces, one
/// after another in the order in which they were started (non-blocking MPI calls do not progress by
/// themselves: docs/appendix/performance.md). No allocation and no lock per call.
class CommunicationThread {
 public:
  using Work = std::function<void(DeviceSpan<float> data, const CallSite& at)>;

  /// `capacity`: calls of `work` that may be in flight. If one throws, `on_failure` is called on this thread
  /// with the current exception; it must end the job.
  CommunicationThread(Work work, std::size_t capacity, std::function<void()> on_failure,
                      trace::Sink* sink = nullptr);
  /// Sums arrays. The computing thread calls ready() and wait_on_stream() where the memory is a device's own.
  CommunicationThread(Collectives& collectives, std::size_t capacity, std::function<void()> on_failure,
                      trace::Sink* sink = nullptr);
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;
  ~CommunicationThread();  ///< Joins the idle thread; detaches it while an exception is being thrown.

  /// Queues a call; `data` must stay untouched until finish(). @param at the same on all ranks
  void start(DeviceSpan<float> data, CallSite at = {});
  void finish();                 ///< Returns when all that were started are done.
  bool finished() const;         ///< Whether they are.
  std::int64_t busy_ns() const;  ///< Time spent inside calls so far.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Several all-reduces at a time: number i of a step goes over communicator i mod n, in the order in which
/// they were started (docs/fleet.md, "Synchronous training"); each with a thread of its own, unless it queues
/// its work on the device. No allocation and no lock per call.
class CommunicationLanes {
 public:
  /// One lane per entry of `lanes`, which must be distinct and of the same ranks. `capacity`: all-reduces
  /// that may be in flight, over all lanes. `on_failure` as in CommunicationThread. `sinks`: one per lane,
  /// because a sink belongs to a thread; empty: nothing is recorded.
  CommunicationLanes(std::span<Collectives* const> lanes, std::size_t capacity,
                     const std::function<void()>& on_failure, std::span<trace::Sink* const> sinks = {});

  /// Queues an all-reduce; `data` must stay untouched until finish(). @param at the same on all ranks
  void start(DeviceSpan<float> data, CallSite at = {});
  void finish();                 ///< Returns when all that were started are done.
  bool finished() const;         ///< Whether finish() would not wait for a thread.
  std::int64_t busy_ns() const;  ///< Time spent inside collectives so far, summed over the lanes.
  std::size_t size() const { return lanes_.size(); }

 private:
  struct Lane {
    Collectives& collectives;
    std::unique_ptr<CommunicationThread> thread;  ///< Null: the lane queues on the device
  };
  std::vector<Lane> lanes_;
  std::size_t next_ = 0;  ///< The lane of the next all-reduce
};

}  // namespace flotilla::mpi
