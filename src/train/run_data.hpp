// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/watchdog/watchdog.hpp"
#include "src/config/config.hpp"
#include "src/data/dataset.hpp"
#include "src/data/loader.hpp"
#include "src/data/mistake_list.hpp"
#include "src/data/sharding.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/machine.hpp"

namespace flotilla {

/// Data for training a model: what it predicts.
DatasetUse use_of(const ModelConfig& model);

/// Opens data.validation of the deck; null if it names none. Its seed differs from training's, so that random
/// data differ.
/// @param use as use_of() the model
std::unique_ptr<Dataset> open_validation_data(const Config& config, DatasetUse use);

/// @throws UserError where labels are texts and those that the model was trained on are not
void check_label_texts(const DataConfig& data, const Dataset& set);

/// Collective. Checks the targets of a data set before training, each rank those of an even share of the
/// samples, as far as Dataset::check_targets() goes; of labels nothing, which are checked at opening.
/// @param key of the deck that names the data  @throws AgreedFailure with the mistakes of all ranks
void check_targets(const Dataset& data, const std::string& key, const mpi::Communicator& world,
                   mpi::Watchdog& watchdog);

/// Collective. The mistakes of all ranks, in their order.
MistakeList gathered_mistakes(const MistakeList& mine, const mpi::Communicator& world);

/// Finds what must be known of the training data before data are opened (columns, categories, fills of
/// missing numbers), where no checkpoint has kept it. @throws UserError as opening does
void find_in_data(Config& config, const DatasetUse& use);

/// Options of a loader for `device`, which must outlive it: batches in memory from which copies are fast, and
/// as bytes where the device scales them.
LoaderOptions loading_for(Device& device, LoaderOptions options);

/// The second part of a run: the data sets, opened, and how a step's samples are divided among the workers.
struct RunData {
  /// Collective over the workers. @throws AgreedFailure for the user's mistakes, on every rank
  /// @param config gets the values that the deck leaves to the data: from `saved_choices`, otherwise found in
  /// the data
  RunData(Config& config, const Machine& machine, const std::map<std::string, std::string>& saved_choices);

  std::unique_ptr<Dataset> training;
  std::unique_ptr<Dataset> validation;  ///< Null: none
  Sharding sharding;
  /// Facts about the data that checkpoints keep, equal on all workers: identity_of each data set by the
  /// deck's name for it, "data.train" and "data.validation", as worker 0 finds it; "model.inputs", the
  /// input_form() of the training data, and "model.targets", the target_form(), of a model that predicts
  /// numbers
  std::map<std::string, std::string> identities;
  std::vector<std::string>
      warnings;  ///< Warnings about what training and validation data have in common, or not
  void open_training(const Config& config, const DatasetUse& use);

  std::vector<std::string> class_names;  ///< The names found by worker 0, only there; empty: there are none
};

/// Epochs up to `position`. Inside an epoch its fraction is Position::offset divided by
/// Sharding::consumed_per_epoch(), at most 1.
double epochs_at(const Sharding& sharding, const Position& position);

/// The end of a run. Where train.seconds alone ends it: the largest step, and endless epochs.
struct RunEnd {
  std::int64_t step = 0;  ///< Steps done then: that of train.epochs or train.steps, whichever comes first
  /// Epochs over which learning rates decay. If train.epochs is given, it is that: train.steps then only cuts
  /// the run short, so that a run that was stopped by it can be continued
  double epochs = 0.0;
  std::int64_t decay_steps = 0;  ///< Sharding::steps_before() of that, in steps of today's batch
};

/// The end of a run that has done `step` steps up to `position`, maybe with other batches than now.
RunEnd end_of(const TrainConfig& train, const Sharding& sharding, std::int64_t step = 0,
              const Position& position = {});

/// What the learning rate of the step at `position` depends on, in a run that ends so.
Progress progress_at(const Sharding& sharding, const Position& position, const RunEnd& end,
                     std::int64_t reductions);

}  // namespace flotilla
