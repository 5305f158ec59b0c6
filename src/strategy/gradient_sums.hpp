// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/all_reduce/communication_lanes.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/reproducible.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// Sums a step's gradient array over the micro-steps of this worker and over the workers that step together,
/// bucket by bucket while backward goes on, or compressed after it.
class GradientSums {
 public:
  struct Parts {
    Device& device;
    mpi::Watchdog& watchdog;
    Model model;                               ///< Its sizes lay out the gradient array
    DeviceSpan<float> gradients;               ///< Header, step statistics, gradients (buckets.hpp)
    Traffic& traffic;                          ///< Counts the bytes that are sent
    Reduction* reduction = nullptr;            ///< Null: the workers' gradients are not summed here
    mpi::CommunicationLanes* lanes = nullptr;  ///< Null: all-reduce in the calling thread
    std::vector<Bucket> buckets{};             ///< Buckets of `gradients`
    ShardSums* shards = nullptr;               ///< Only with run.reproducible; micro-steps are shards then
  };
  explicit GradientSums(Parts parts);

  /// The array for this worker's loss sums of the step: loss_sums floats, which are zero before the forward
  /// pass.
  DeviceSpan<float> loss_sums() const { return parts_.gradients.subspan(0, flotilla::loss_sums); }
  /// To be called before backward: the other workers get this worker's vote to stop after the step with its
  /// sums.
  void vote_to_stop();
  /// To be called before the first of several micro-steps, whose gradients and statistics add up.
  void begin_micro_steps();
  /// To be called after backward of each micro-step (0, 1, …) but the last.
  void end_micro_step(std::int64_t micro_step);
  /// To be called during the last backward of a step: the gradients from `begin` to the end of the arena are
  /// final.
  void add_ready(std::int64_t begin, std::int64_t step);
  /// Collective over the workers that step together. After backward: returns when the sums are in the array.
  void wait(std::int64_t step);
  /// Clears header and statistics for the next step, which every step leaves at zero.
  void clear_header();

  /// Whether the next steps are taken by all workers of the reduction together (the default) or by this one
  /// alone, with its own gradients. Equal on every worker.
  void step_together(bool together) { together_ = together && parts_.reduction != nullptr; }
  bool together() const { return together_; }
  /// Number of gradients that a sum of the next step is made of.
  std::int64_t summands() const { return together_ ? summands_ : 1; }
  /// Lines for the report at the start.
  std::vector<std::string> description() const;

 private:
  DeviceSpan<float> complete(std::size_t bucket);
  bool compresses(std::int64_t step) const;
  void all_reduce(std::size_t bucket, std::int64_t step);
  void all_reduce_exactly(std::int64_t step);

  Parts parts_;
  std::int64_t summands_ = 1;
  bool together_;
  std::size_t started_ = 0;  ///< Buckets of this step whose all-reduce was started
};

}  // namespace flotilla
