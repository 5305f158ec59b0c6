// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/config/config.hpp"
#include "src/observe/reporter.hpp"

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

/// "were taken 63 % of the time, while a thread had something to compute: stop other programs there, …", for
/// unusually long waits.
/// @param worker "rank 3 on node7", where it matters
std::string processor_advice(const ProcessorWaiting& waiting, const ProcessorMeans& means,
                             const std::string& worker = "");

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

/// Says where a training waits for its input, or for processors that other processes take, and what would
/// help: this worker's wait once, when it stands out, and at the end that of the worker that waited most.
class ResourceAdvice {
 public:
  /// Must be constructed by the thread that computes. All arguments must outlive this. @param places of the
  /// workers
  ResourceAdvice(const Config& config, const mpi::Communicator& workers,
                 const std::vector<mpi::Place>& places, Reporter& reporter);

  /// Leaves out the time until now: the first steps wait for the first batches, and for threads to start.
  /// @param so_far since the start of training, as in the other functions
  void leave_out(const InputTimes& so_far);
  void report(const InputTimes& so_far);
  void report_whole(const InputTimes& so_far);  ///< Collective. At the end of the training.

 private:
  int computing_threads() const;
  const mpi::Place& own_place() const { return places_[static_cast<std::size_t>(workers_.rank())]; }
  InputTimes counted(InputTimes so_far) const { return so_far -= left_out_; }
  ProcessorWaiting waiting() const;
  std::string input_text(const InputTimes& times, const std::string& worker) const;
  std::string processor_text(const std::string& worker) const;
  void say_of_worst(const char* label, double share,
                    const std::function<std::string(const std::string& worker)>& advice);

  const Config& config_;
  const mpi::Communicator& workers_;
  const std::vector<mpi::Place>& places_;
  Reporter& reporter_;
  ProcessorQueue queue_;
  InputTimes left_out_;
  std::int64_t left_out_queued_ns_ = 0;
  std::int64_t begin_ns_ = 0;
  bool input_said_ = false;
  bool processors_said_ = false;
};

}  // namespace flotilla
