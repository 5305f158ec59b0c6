// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

/// The time that threads of this process were ready to run but not running, as Linux counts it
/// (/proc/self/task/N/schedstat).
class ProcessorQueue {
 public:
  /// @param threads their ids
  explicit ProcessorQueue(std::vector<std::int64_t> threads) : threads_(std::move(threads)) {}
  /// The sum over these threads since their start; 0 where the system does not report it.
  std::int64_t waited_ns() const;

 private:
  std::vector<std::int64_t> threads_;
};

/// The waits of a worker's computing threads for processors, over some time.
struct ProcessorWaiting {
  std::int64_t span_ns = 0;    ///< The length of that time
  std::int64_t queued_ns = 0;  ///< The waits, summed over the threads

  /// The waits as a share of the span, in [0, 1]: one waiting thread delays all threads of an operation.
  double share() const;
  bool stands_out() const;  ///< The wait is long enough for a message.
};

/// The processors of a worker.
struct ProcessorMeans {
  int threads = 1;     ///< Computing threads
  int cores = 1;       ///< The worker's share of its host
  bool bound = false;  ///< Bound to fewer cores than the host has
};

/// "were taken 63 % of the time, while a thread had something to compute: end what else runs there, …", for
/// waits that stand out.
/// @param worker "rank 3 on node7", where it matters
std::string processor_advice(const ProcessorWaiting& waiting, const ProcessorMeans& means,
                             const std::string& worker = "");

}  // namespace flotilla
