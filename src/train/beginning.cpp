// SPDX-License-Identifier: Apache-2.0
#include "src/train/beginning.hpp"

#include "src/config/deck.hpp"

namespace flotilla {

Beginning beginning_at(const LoadedCheckpoint* resumed, const std::map<std::string, std::string>& changes,
                       const Config& config) {
  if (resumed == nullptr) return {};
  const CheckpointState& state = resumed->state;
  const bool same_metric = read_saved_deck(state.deck).checkpoint.best == config.checkpoint.best;
  const auto seconds = state.numbers.find(trained_seconds);
  return {.step = state.step,
          .position = state.position,
          .samples = state.samples,
          .checkpoint = resumed->path,
          .changes = changes,
          .best = same_metric ? state.numbers : std::map<std::string, double>(),
          // 0: the run before the checkpoint did not count them
          .seconds = seconds == state.numbers.end() ? 0.0 : seconds->second};
}

}  // namespace flotilla
