// SPDX-License-Identifier: Apache-2.0
#include "src/data/batch_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/random.hpp"
#include "src/data/read_ahead.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t most_substitutes = 10;

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
    return replace_ && attempt < most_substitutes ? sampler_.substitute(sample, attempt) : -1;
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
