// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace flotilla {

/// The rule by which a loss scale follows steps that overflow and steps that do not (formulas:
/// src/optim/loss_scale.hpp).
struct ScaleRule {
  bool dynamic = false;
  float growth = 1.0F;
  float backoff = 1.0F;
  std::int64_t growth_every = 1;   ///< Good steps in a row
  std::int64_t backoff_every = 1;  ///< Steps that overflowed in a row
  friend bool operator==(const ScaleRule&, const ScaleRule&) = default;
};

struct ScaleState {
  float scale = 1.0F;
  std::int64_t good = 0;                   ///< Steps in a row
  std::int64_t consecutive_overflows = 0;  ///< Steps that overflowed, the last ones at this scale
  std::int64_t skipped = 0;                ///< Steps that overflowed, since the start of training
};

inline constexpr float min_loss_scale = 1.0F;

constexpr bool can_fall(const ScaleRule& rule, const ScaleState& state) {
  return rule.dynamic && state.scale > min_loss_scale;
}

/// constexpr, so that code for devices can call it.
constexpr void adjust_scale(const ScaleRule& rule, ScaleState& state, bool finite) {
  if (!finite) {
    state.good = 0;
    ++state.skipped;
    ++state.consecutive_overflows;
    if (can_fall(rule, state) && state.consecutive_overflows >= rule.backoff_every) {
      const float lower = rule.backoff * state.scale;
      state.scale = lower < min_loss_scale ? min_loss_scale : lower;
      state.consecutive_overflows = 0;
    }
    return;
  }
  state.consecutive_overflows = 0;
  if (!rule.dynamic || ++state.good < rule.growth_every) return;
  state.good = 0;
  const float grown = rule.growth * state.scale;
  if (grown <= std::numeric_limits<float>::max()) state.scale = grown;
}

}  // namespace flotilla
