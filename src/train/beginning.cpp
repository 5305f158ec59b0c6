// SPDX-License-Identifier: Apache-2.0
#include "src/train/beginning.hpp"

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/deck.hpp"
#include "src/config/values.hpp"
#include "src/data/sampler.hpp"
#include "src/train/monitor/best_validation.hpp"

namespace flotilla {

Beginning beginning_at(const LoadedCheckpoint* resumed, const std::map<std::string, std::string>& changes,
                       const Config& config) {
  if (resumed == nullptr) return {};
  const CheckpointState& state = resumed->state;
  const bool same_metric = read_saved_deck(state.deck).checkpoint.best == config.checkpoint.best;
  std::map<std::string, double> numbers = state.numbers;
  if (!same_metric)
    std::erase_if(numbers, [](const auto& number) {
      return number.first.starts_with("best.") || number.first == "plateau.best";
    });
  const auto seconds = state.numbers.find(trained_seconds);
  return {.step = state.step,
          .position = state.position,
          .samples = state.samples,
          .checkpoint = resumed->path,
          .changes = changes,
          .numbers = std::move(numbers),
          // 0: the run before the checkpoint did not count them
          .seconds = seconds == state.numbers.end() ? 0.0 : seconds->second};
}

namespace {

/// The ways to a run that trains. @param limit "train.epochs = 3"
std::string ways_out(const std::string& limit) {
  return cat(
      "give another folder (run.output=…; with run.resume=never one that holds checkpoints is refused), "
      "or change ",
      limit.substr(0, limit.find(' ')), " to go on from this checkpoint");
}

bool is_at_last_epoch(const TrainConfig& train, const Position& position) {
  return train.epochs > 0 && position.epoch >= train.epochs;
}

}  // namespace

bool is_at_limit(const TrainConfig& train, std::int64_t step, const Position& position) {
  return is_at_last_epoch(train, position) || (train.steps > 0 && step >= train.steps);
}

std::string reached_limit(const TrainConfig& train, std::int64_t step, const Position& position) {
  if (!is_at_limit(train, step, position)) return {};
  return is_at_last_epoch(train, position) ? cat("train.epochs = ", train.epochs)
                                           : cat("train.steps = ", train.steps);
}

std::string nothing_left(const Config& config, const Sharding& sharding, const Beginning& beginning) {
  const TrainConfig& train = config.train;
  // Behind an epoch that has no batch of this size left.
  const Position position = Sampler(0, sharding).after(beginning.position, 0);
  if (std::string limit = reached_limit(train, beginning.step, position); !limit.empty()) return limit;
  if (train.seconds > 0.0 && beginning.seconds >= train.seconds)
    return cat("train.seconds = ", config::toml_text(train.seconds));
  const BestValidation best(config, beginning.numbers);
  if (best.reached_target()) return cat("train.target = ", config::toml_text(train.target));
  if (best.out_of_patience()) return cat("train.patience = ", train.patience);
  return {};
}

std::string nothing_left_line(const std::string& checkpoint, const std::string& limit,
                              const std::vector<ResumeDifference>& differences) {
  return cat("nothing left '", checkpoint, "' has reached ", limit,
             differences.empty() ? "" : cat(", changed since: ", changes_of(differences)),
             "; no step is trained. To train, ", ways_out(limit));
}

void refuse_untrained_changes(const std::string& checkpoint, const std::string& limit,
                              const std::vector<ResumeDifference>& differences) {
  if (std::ranges::all_of(differences, &ResumeDifference::is_of_machine)) return;
  throw UserError(cat("nothing is left to train: '", checkpoint, "' has reached ", limit,
                      ", and the deck has changed since: ", changes_of(differences),
                      "; to train what it says now, ", ways_out(limit)));
}

}  // namespace flotilla
