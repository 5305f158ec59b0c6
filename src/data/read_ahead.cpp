// SPDX-License-Identifier: Apache-2.0
#include "src/data/read_ahead.hpp"

#include <algorithm>

namespace flotilla {

void ReadAhead::before_step(const Dataset& data, Position position, bool first) const {
  const Sharding& sharding = sampler_.sharding();
  if (sharding.order == SampleOrder::shuffled || !sharding.shares.empty()) return;
  const Position at = sampler_.after(position, 0);
  const std::int64_t step = sharding.global_batch();
  if (sharding.order == SampleOrder::file) {
    const std::int64_t ahead = std::max<std::int64_t>(sharding.buffer / step, 1);
    const std::int64_t left = ahead - at.offset / step % ahead;  // of this group of steps
    if (first) tell_steps(data, at, left);
    if (first || left == ahead) {
      const Position next = sampler_.after(at, left);
      tell_steps(data, next.epoch == at.epoch ? next : Position{at.epoch + 1, 0}, ahead);
    }
    return;
  }
  const std::int64_t windows = sampler_.order(at.epoch, sharding.samples).windows();
  const std::int64_t buffer = sharding.buffer;
  // Of the windows that begin in this step the next ones are told.
  std::int64_t window = (at.offset + buffer - 1) / buffer;
  if (first) {
    window = at.offset / buffer;
    tell_blocks(data, at.epoch, window);
  }
  for (; window + 1 < windows && window * buffer < at.offset + step; ++window)
    tell_blocks(data, at.epoch, window + 1);
  if (const Position next = sampler_.after(at); next.epoch != at.epoch) tell_blocks(data, next.epoch, 0);
}

void ReadAhead::tell_blocks(const Dataset& data, std::int64_t epoch, std::int64_t window) const {
  const EpochOrder order = sampler_.order(epoch, sampler_.sharding().samples);
  for (std::int64_t k = reader_.number; k < order.blocks(window); k += reader_.count) {
    const SampleRange block = order.block(window, k);
    data.will_read(block.first, block.count);
  }
}

void ReadAhead::tell_steps(const Dataset& data, Position position, std::int64_t steps) const {
  const Sharding& sharding = sampler_.sharding();
  const std::int64_t own = sharding.batch * sharding.micro_steps;
  SampleRange told;
  for (std::int64_t k = 0; k < steps; ++k) {
    const Position step = sampler_.after(position, k);
    if (step.epoch != position.epoch) break;
    const std::int64_t first = std::min(step.offset + worker_ * own, sharding.samples);
    const SampleRange next{first, std::min(own, sharding.samples - first)};
    if (told.first + told.count == next.first) {
      told.count += next.count;
      continue;
    }
    if (told.count > 0) data.will_read(told.first, told.count);
    told = next;
  }
  if (told.count > 0) data.will_read(told.first, told.count);
}

}  // namespace flotilla
