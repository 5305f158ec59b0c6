// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kernels/trace.hpp"
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

/// A thread that performs all-reduces one after another in the order in which they were started, beside the
/// computation (non-blocking MPI calls do not progress by themselves: docs/performance.md). No allocation and
/// no lock per call.
class CommunicationThread {
 public:
  /// `capacity`: all-reduces that may be in flight. If one throws, `on_failure` is called on this thread with
  /// the current exception; it must end the job.
  CommunicationThread(Collectives& collectives, std::size_t capacity, std::function<void()> on_failure,
                      trace::Sink* sink = nullptr);
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;
  ~CommunicationThread();  ///< Joins the idle thread; detaches it while an exception is being thrown.

  /// Queues an all-reduce; `data` must stay untouched until finish(). @param at the same on all ranks
  void start(DeviceSpan<float> data, CallSite at = {});
  void finish();                 ///< Returns when all that were started are done and settled.
  std::int64_t busy_ns() const;  ///< Time spent inside collectives so far.

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla::mpi
