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
#include "src/train/monitor/input_need.hpp"
#include "src/train/monitor/processor_waiting.hpp"

namespace flotilla {

/// Says where a training waits for its input, or for processors that other processes take, and what would
/// help: this worker's wait once, when it stands out, and at the end that of the worker that waited most.
class ResourceAdvice {
 public:
  /// To be made by the thread that computes. All arguments must outlive this. @param places of the workers
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
