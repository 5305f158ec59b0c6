// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "src/observe/mlperf_log.hpp"
#include "src/observe/reporter.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/monitor/best_validation.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/saves.hpp"
#include "src/train/training_loaders.hpp"
#include "src/train/training_state.hpp"

namespace flotilla {

/// When a training validates its model, and what it finds.
class Validations {
 public:
  struct Parts {
    RunParts& run;
    Reporter& reporter;
    Saves& saves;  ///< Must not read the weights meanwhile
    const TrainingLoaders& loaders;
    TrainingState& state;
    MlperfLog* mlperf;  ///< Null: none
  };
  /// @param numbers those of the run so far
  Validations(const Parts& parts, const std::map<std::string, double>& numbers);

  /// Whether an epoch has ended at `position` after which the deck asks for a validation.
  bool is_due(const Position& position) const;
  /// Collective. Validates, unless this step's model was validated before.
  /// @param epoch_s time of the epoch that ended last, if it was whole
  void validate(std::optional<double> epoch_s);
  /// Whether the best checkpoint is kept, and a validation has improved on it since the last saved().
  bool improved() const { return improved_ && keeps_best(); }
  void saved() { improved_ = false; }
  bool keeps_best() const { return parts_.run.config.checkpoint.best != BestMetric::none; }
  /// Whether training ends early: no validation improves any more, or the best one is good enough.
  bool end_training() const { return best_.out_of_patience() || best_.reached_target(); }
  const BestValidation& best() const { return best_; }
  /// Whether training depends on results so far: on the best, or by the learning rate.
  bool steers() const { return keeps_best() || plateau_; }
  std::map<std::string, double> numbers() const;  ///< Results so far, for a checkpoint's numbers
  /// Says where the best checkpoint is, and why training ended early.
  void report_best() const;
  /// Seconds of a validation: the longest so far, or as training takes for as many samples.
  double expected_s() const;

 private:
  Evaluation evaluate(const Model& model);
  void compare(ValidationReport& report);
  void follow_plateau(double figure);

  Parts parts_;
  BestValidation best_;
  std::optional<Plateau> plateau_;  ///< Only with schedule.kind = "plateau"
  bool improved_ = false;
  std::int64_t last_step_ = -1;
  std::int64_t longest_ns_ = 0;
};

}  // namespace flotilla
