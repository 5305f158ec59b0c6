// SPDX-License-Identifier: Apache-2.0
#include "src/data/batch_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/random.hpp"

namespace flotilla {

void ReadAhead::before_step(const Dataset& data, Position position, bool first) const {
  const Sharding& sharding = sampler_.sharding();
  if (!reads_in_order(sharding.order) || !sharding.shares.empty()) return;
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
  // For each window that begins in this step the reader is told of the window after it.
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

namespace {

constexpr std::int64_t max_substitutes = 10;

class TrainingPlan final : public BatchPlan {
 public:
  TrainingPlan(const Sampler& sampler, const Shape& sample, std::int64_t worker, Position start,
               const LoaderOptions& options)
      : sampler_(sampler),
        sample_(sample),
        worker_(worker),
        start_(start),
        ahead_(sampler, worker, options.reader),
        replace_(options.replace_bad),
        mix_{.mixup = options.mixup, .cutmix = options.cutmix} {}
  std::int64_t batches() const override { return std::numeric_limits<std::int64_t>::max(); }
  std::int64_t batch() const override { return sampler_.sharding().batch; }
  bool mixes() const override { return mix_.mixes(); }
  void announce(std::int64_t number, const Dataset& data) const override {
    const std::int64_t micro_steps = sampler_.sharding().micro_steps;
    if (number % micro_steps == 0)
      ahead_.before_step(data, sampler_.after(start_, number / micro_steps), number == 0);
  }
  Selection select(std::int64_t number, std::int64_t first, std::span<std::int64_t> samples) const override {
    const std::int64_t micro_steps = sampler_.sharding().micro_steps;
    const Position position = sampler_.after(start_, number / micro_steps);
    sampler_.indices(position, worker_, number % micro_steps, samples, first);
    const std::uint64_t variation = sampler_.variation(position.epoch);
    PairMix mix;
    if (mixes()) {
      Random random(variation, random_mixup, static_cast<std::uint64_t>(position.offset));
      mix = draw_mix(random, mix_, sample_);
    }
    return {.valid = batch(), .variation = variation, .mix = mix};
  }
  std::int64_t substitute(std::int64_t sample, std::int64_t attempt) const override {
    return replace_ && attempt < max_substitutes ? sampler_.substitute(sample, attempt) : -1;
  }

 private:
  Sampler sampler_;
  Shape sample_;
  std::int64_t worker_;
  Position start_;
  ReadAhead ahead_;
  bool replace_;
  MixSpec mix_;
};

class ValidationPlan final : public BatchPlan {
 public:
  ValidationPlan(ValidationShard shard, std::int64_t batch) : shard_(shard), batch_(batch) {}
  std::int64_t batches() const override { return (shard_.end - shard_.begin + batch_ - 1) / batch_; }
  std::int64_t batch() const override { return batch_; }
  Selection select(std::int64_t number, std::int64_t first, std::span<std::int64_t> samples) const override {
    const std::int64_t begin = shard_.begin + number * batch_;
    std::iota(samples.begin(), samples.end(), begin + first);
    return {.valid = std::min(batch_, shard_.end - begin)};
  }

 private:
  ValidationShard shard_;
  std::int64_t batch_;
};

}  // namespace

std::unique_ptr<const BatchPlan> make_training_plan(const Sampler& sampler, const Shape& sample,
                                                    std::int64_t worker, Position start,
                                                    const LoaderOptions& options) {
  return std::make_unique<TrainingPlan>(sampler, sample, worker, start, options);
}

std::unique_ptr<const BatchPlan> make_validation_plan(ValidationShard shard, std::int64_t batch) {
  return std::make_unique<ValidationPlan>(shard, batch);
}

}  // namespace flotilla
