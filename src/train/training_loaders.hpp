// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "src/data/loader.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Makes the loaders of a training's batches.
class TrainingLoaders {
 public:
  /// @param run must outlive this  @param loading for the step's batches
  TrainingLoaders(RunParts& run, LoaderOptions loading);

  const Sampler& sampler() const { return sampler_; }
  /// Batches from `position` on, for the steps.
  std::unique_ptr<Loader> of_steps(const Position& position) const;
  /// Collective. Estimates batch norm's statistics of an averaged `model` from the training batches that
  /// begin at `position`, where local SGD is to do so; not those of this worker's own model.
  void estimate_statistics(const Position& position, const Model& model) const;
  /// Options for loading data besides the step's batches, which stay in memory, and whose threads may be
  /// recording into their sinks.
  LoaderOptions beside_steps() const;

 private:
  RunParts& run_;
  LoaderOptions loading_;
  Sampler sampler_;
};

/// Collective. model.statistics ← the mean of the statistics of batch norm with model.parameters, over
/// `batches` training batches of every worker (variances unbiased). For averaged parameters, to which no
/// worker's running statistics belong (Izmailov et al. 2018).
/// @param loader hands out the batches; the network ends bound to run.model.weights
void re_estimate_statistics(RunParts& run, const Model& model, Loader& loader, std::int64_t batches);

}  // namespace flotilla
