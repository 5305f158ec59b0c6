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
    if (first) tell_steps(data, at, ahead);
    if (first || at.offset / step % ahead == 0) tell_steps(data, sampler_.after(at, ahead), ahead);
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
  for (; window < windows && window * buffer < at.offset + step; ++window) {
    const bool last = window + 1 == windows;
    tell_blocks(data, last ? at.epoch + 1 : at.epoch, last ? 0 : window + 1);
  }
}

void ReadAhead::tell_blocks(const Dataset& data, std::int64_t epoch, std::int64_t window) const {
  const auto blocks = sampler_.order(epoch, sampler_.sharding().samples).blocks(window);
  for (std::int64_t k = reader_.number; k < std::ssize(blocks); k += reader_.count) {
    const SampleRange& block = blocks[static_cast<std::size_t>(k)];
    data.will_read(block.first, block.count);
  }
}

void ReadAhead::tell_steps(const Dataset& data, Position position, std::int64_t steps) const {
  const Sharding& sharding = sampler_.sharding();
  const std::int64_t own = sharding.batch * sharding.micro_steps;
  SampleRange told;
  for (std::int64_t k = 0; k < steps; ++k) {
    const std::int64_t first = std::min(sampler_.after(position, k).offset + worker_ * own, sharding.samples);
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
