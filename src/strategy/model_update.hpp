// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "models/half_parameters.hpp"
#include "mpi/core/communicator.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/optim/optimizer.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/kept_values.hpp"
#include "src/strategy/state_array.hpp"
#include "src/strategy/strategy.hpp"

namespace flotilla {

/// An exponential moving average of a model's parameters and running statistics over the steps, as PyTorch's
/// AveragedModel with get_ema_multi_avg_fn and use_buffers: at the first update the model itself, at later
/// ones average ← decay · average + (1 − decay) · model (Polyak & Juditsky 1992). Training does not depend on
/// it.
class WeightAverage {
 public:
  WeightAverage(Device& device, const Model& shape, double decay);  ///< @param decay in (0, 1)

  void update(const Model& model);
  Model model() { return {parameters_.span(), statistics_.span()}; }
  /// "strategy/average_parameters", and where there are statistics "strategy/average_statistics".
  std::vector<StateArray> arrays();
  std::map<std::string, double> numbers() const;  ///< For StrategyState::numbers
  /// If numbers() are not among the saved ones, the next update is the first.
  void set_numbers(const std::map<std::string, double>& saved);
  std::int64_t bytes() const;

 private:
  Device& device_;
  float decay_;
  std::int64_t updates_ = 0;
  Storage parameters_;
  Storage statistics_;
};

/// Returns the header of a step's gradients one step later, so that the host does not wait for the device.
class DelayedMetrics {
 public:
  explicit DelayedMetrics(Device& device);
  /// Keeps a copy of `sums`, header_floats on the device, in the order of its work. @param before gets those
  /// kept last, or zeros
  void exchange(DeviceSpan<const float> sums, std::span<float> before);
  void forget();  ///< Drops the sums that were kept last.

 private:
  Device& device_;
  std::unique_ptr<CopyLane> lane_;
  std::array<Storage, 2> kept_;  ///< Used alternately
  std::size_t next_ = 0;
  std::optional<CopyLane::Mark> mark_;  ///< Mark after the copy to the other one; empty: there was none
};

/// A worker's update of its model with the sums in its gradient array. In each step, in this order:
/// prepare, outcome, and unless the step is skipped limit_norm and apply; then finish_step and
/// average_weights.
class ModelUpdate {
 public:
  struct Parts {
    Device& device;
    Optimizer& optimizer;
    LossScale& loss_scale;
    Model model;                   ///< This worker's model
    DeviceSpan<float> gradients;   ///< Header, step statistics, gradients (buckets.hpp)
    std::int64_t micro_steps = 1;  ///< Micro-steps added up in the step statistics; 1 with shards
    bool weighted =
        false;  ///< Samples have weights (train.class_weights), whose sum the gradient is divided by
    double clip_norm = 0.0;                        ///< Norm limit of the averaged gradient; 0: none
    std::optional<KeptValues> fixed_statistics{};  ///< Statistics that steps leave alone
    /// Decides on the device whether a step is taken; null: the host does
    OverflowGuard* overflow_guard = nullptr;
    /// Halves of the parameters, which steps write too; null: none. Requires that only steps, and
    /// the code that fills arrays(), write the parameters.
    HalfParameters* halves = nullptr;
    double average_decay = 0.0;  ///< Decay of the average of the weights; 0: none is kept
  };
  explicit ModelUpdate(Parts parts);

  /// Sets the scale of the sums, and looks for an overflow. @returns whether the step must be skipped; with
  /// an overflow guard false: the device decides, and apply() changes nothing where it finds one
  /// @param summands GradientSums::summands()
  bool prepare(double learning_rate, std::int64_t summands);
  /// Loss and accuracies from the sums; with Parts::weighted the weights of the step's samples too, for which
  /// the host waits in any case. @param now true: those of this step, for which the host waits; false: those
  /// of the step before
  StepOutcome outcome(bool now);
  /// Makes apply() scale the gradients so that the norm of their mean is at most Parts::clip_norm.
  void limit_norm();
  /// Moves statistics and parameters: the optimizer's step.
  void apply(double learning_rate);
  /// Adapts the loss scale, and records in the outcome whether the step was skipped.
  void finish_step(bool overflowed, StepOutcome& outcome);
  /// Takes the weights into their average.
  void average_weights();

  /// To be called after start() and when a run resumes: gives the guard on the device the host's state.
  void begin();
  /// Collective over `workers`: all get worker 0's loss scale and number of optimizer steps. Workers that
  /// held scales and counts of their own may have to share them now.
  void share(const mpi::Communicator& workers);
  /// The arrays for the values of a checkpoint. Values may be loaded into them.
  std::vector<StateArray> arrays();
  std::map<std::string, double> numbers() const;  ///< Numbers of the average, for StrategyState::numbers
  void set_numbers(const std::map<std::string, double>& saved);
  /// The average of the model over the steps, valid until the next one; empty spans: none is kept.
  Model average() { return average_ ? average_->model() : Model{}; }
  std::int64_t held_bytes() const { return average_ ? average_->bytes() : 0; }  ///< Memory of the average
  std::optional<KeptValues>& fixed_statistics() { return parts_.fixed_statistics; }
  Optimizer& optimizer() const { return parts_.optimizer; }

 private:
  HalfCopy half_copy();
  void update_statistics();

  Parts parts_;
  float statistics_decay_;  ///< Decay of the running statistics in a step
  DelayedMetrics late_;
  std::optional<WeightAverage> average_;  ///< Average of the weights, with Parts::average_decay
  Storage statistics_before_;             ///< With an overflow guard: those before the step that it may undo
  const UpdateNumbers* guarded_ = nullptr;  ///< Numbers of the guard for this step; null: there is no guard
  std::int64_t not_taken_ =
      0;  ///< Steps of the guard's last report that the optimizer counted, and the device skipped
  std::int64_t summands_ = 1;
  double scale_ = 1.0;  ///< Factor from the summed gradient to the optimizer's
};

}  // namespace flotilla
