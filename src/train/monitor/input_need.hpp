// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

/// Times of a worker's loader over some steps.
struct InputTimes {
  std::int64_t step_ns = 0;  ///< All of the steps' time
  std::int64_t wait_ns = 0;  ///< Time that the training thread waited for batches
  std::int64_t read_ns = 0;  ///< Reading time of the loader's threads, summed
  std::int64_t comm_ns = 0;  ///< Time that the training thread waited for other workers and the network

  InputTimes& operator-=(const InputTimes& other);
  double wait_share() const;  ///< In [0, 1]
  /// Threads of the loader that would read as fast as batches are used, if each reads as fast as now. The
  /// others may wait for their input as well: the time that this worker waits for them is left out.
  std::int64_t threads_needed() const;
  bool stands_out() const;  ///< The wait is long enough for a message.
};

/// The resources of a worker's loader.
struct InputMeans {
  std::int64_t threads = 0;    ///< data.threads
  std::int64_t prefetch = 0;   ///< data.prefetch
  std::int64_t cores = 0;      ///< The worker's share of its host
  std::int64_t computing = 1;  ///< Threads of the worker that compute
  std::int64_t spare = 0;      ///< Cores of the host for each of its workers on which none computes
};

/// "took 34 % of the time: about 6 data.threads would keep up (2 now); this rank's share of its host is 4
/// cores", for times that stand out.
/// @param worker "rank 3 on node7", where it matters: "took 34 % of the time of rank 3 on node7: …"
std::string input_advice(const InputTimes& times, const InputMeans& means, const std::string& worker = "");

}  // namespace flotilla
