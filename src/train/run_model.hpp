// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/device.hpp"
#include "models/network.hpp"
#include "src/config/config.hpp"
#include "src/optim/loss_scale.hpp"
#include "src/optim/optimizer.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/strategy/reproducible.hpp"
#include "src/strategy/state_array.hpp"
#include "src/train/machine.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

/// The third part of a run: the network, the flat arrays of its values, and what updates them.
struct RunModel {
  /// Collective over the workers: makes networks and optimizer. Arrays come with allocate().
  /// @throws AgreedFailure for the user's mistakes, on every rank
  RunModel(const Config& config, const Machine& machine, const RunData& data);
  RunModel(const RunModel&) = delete;
  RunModel& operator=(const RunModel&) = delete;

  /// Collective. Allocates the arrays that the workers reduce, of gradients (`plan`) and, with local SGD, of
  /// models (`averaging`); with parameter servers those that they push and pull, by plans without candidates.
  void allocate(AllReducePlan& plan, AllReducePlan& averaging);
  /// Binds the networks to the arrays and sets the first weights, by run.seed. After the all-reduces were
  /// measured, which write to the arrays.
  void initialise();

  DeviceSpan<float> gradients() const {
    return summed.values();
  }  ///< Header, statistics, gradients (buckets.hpp)
  /// The factor by which backward multiplies the sum of a batch's losses.
  DeviceScalar<float> backward_scale() const;
  std::int64_t shards() const { return shard_sums ? shard_sums->shards() : 1; }  ///< Shards of this worker
  /// The half-precision copies that the optimizer writes along with the parameters; null where other code
  /// writes parameters too.
  HalfParameters* updated_halves() const {
    return config.all_reduce() == nullptr ? nullptr : network->halves();
  }
  Network& evaluator() { return validation_network ? *validation_network : *network; }
  /// evaluator() computes with `evaluated` until it is called again. Before the next step it must be
  /// called with `weights`.
  void evaluate_with(const Model& evaluated);
  /// Training's forward passes compute with `trained` until it is called again.
  void train_with(const Model& trained);

  const Config& config;
  const Machine& machine;
  const Sharding& sharding;
  std::unique_ptr<Network> network;
  std::unique_ptr<Network> validation_network;  ///< Null: the training network serves
  Storage validation_sums;                      ///< Loss sums of an evaluation
  std::unique_ptr<Optimizer>
      optimizer;         ///< Null where servers run it, except on worker 0, which saves its state
  LossScale loss_scale;  ///< This worker's loss scale
  std::unique_ptr<OverflowGuard> overflow_guard;  ///< Null: the host decides whether a step is taken
  ReducedArray models;  ///< Holds `weights`, `consensus` and `averages`; with servers what is pulled, laid
                        ///< out as `summed`
  ReducedArray summed;  ///< The array that a step sums: gradients()
  Model weights;        ///< Weights of this worker
  Model consensus;      ///< Local SGD: array for the consensus
  Model averages;       ///< Local SGD: array for averages; empty: none is needed
  std::unique_ptr<ShardSums> shard_sums;  ///< Null: not run.reproducible

 private:
  void bind(Network& bound, const Model& with) const;
  float loss_divisor() const;
  std::unique_ptr<OverflowGuard> make_overflow_guard() const;
};

}  // namespace flotilla
