// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/sync_all_reduce.hpp"

#include "src/strategy/reduce/power_sgd.hpp"

namespace flotilla {

void SyncAllReduce::start() {
  broadcast(parts_.device, parts_.workers, live());
  parts_.reduction.clear_errors();
  parts_.update.begin();
}

void SyncAllReduce::resume(const Resumption& resumed) {
  parts_.update.set_numbers(resumed.numbers);
  parts_.update.share(parts_.workers);
}

std::vector<StateArray> SyncAllReduce::live() {
  std::vector<StateArray> arrays = parts_.update.arrays();
  if (parts_.reduction.compression) arrays.push_back(parts_.reduction.compression->factors());
  return arrays;
}

StrategyState SyncAllReduce::state() {
  return {.shared = live(),
          .own = parts_.reduction.error_arrays(leading_floats(parts_.model), parts_.model.parameters.size()),
          .numbers = parts_.update.numbers(),
          .optimizer_steps = parts_.update.optimizer().steps()};
}

void SyncAllReduce::begin_step(bool asks_to_stop) {
  if (asks_to_stop) parts_.sums.vote_to_stop();
}

StepOutcome SyncAllReduce::exchange(const StepInfo& /*info*/, const StepOutcome& own) {
  ++parts_.traffic.synchronisations;
  StepOutcome outcome = own;
  outcome.skipped_by_all = own.skipped;
  return outcome;
}

StrategyDescription SyncAllReduce::description() const {
  return {.transport = std::string(parts_.reduction.kind->word),
          .lines = parts_.sums.description(),
          .held_bytes = parts_.update.held_bytes() +
                        (parts_.reduction.compression ? parts_.reduction.compression->held_bytes() : 0) +
                        static_cast<std::int64_t>(parts_.reduction.errors.size() * sizeof(float))};
}

}  // namespace flotilla
