// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace flotilla {

/// How long threads of this process were ready to run while others had their processors, as Linux counts it
/// (/proc/self/task/N/schedstat).
class ProcessorQueue {
 public:
  /// @param threads their ids
  explicit ProcessorQueue(std::vector<std::int64_t> threads) : threads_(std::move(threads)) {}
  /// Since these threads began, of all together; 0 where the system does not tell.
  std::int64_t waited_ns() const;

 private:
  std::vector<std::int64_t> threads_;
};

/// What the threads of a worker that compute waited for processors meanwhile.
struct ProcessorWaiting {
  std::int64_t span_ns = 0;    ///< From one moment to another
  std::int64_t queued_ns = 0;  ///< Of all these threads together

  /// Of the span, in [0, 1]: one thread that waits keeps the others of an operation waiting.
  double share() const;
  bool stands_out() const;  ///< The wait is worth a word.
};

/// What a worker computes with.
struct ProcessorMeans {
  int threads = 1;     ///< That compute
  int cores = 1;       ///< The worker's share of its host
  bool bound = false;  ///< To fewer cores than the host has
};

/// "were taken 63 % of the time, while a thread had something to compute: end what else runs there, …", for
/// waits that stand out.
/// @param worker "rank 3 on node7", where it matters
std::string processor_advice(const ProcessorWaiting& waiting, const ProcessorMeans& means,
                             const std::string& worker = "");

}  // namespace flotilla
