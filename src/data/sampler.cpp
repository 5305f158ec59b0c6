// SPDX-License-Identifier: Apache-2.0
#include "src/data/sampler.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

namespace flotilla {

namespace {

// The windows' permutations use streams of random_order whose numbers lie above those of the epochs.
constexpr int window_shift = 32;

std::int64_t at(const Permutation& permutation, std::int64_t position) {
  return static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(position)));
}

}  // namespace

EpochOrder::EpochOrder(std::uint64_t seed, std::int64_t epoch, std::int64_t samples, const OrderSpec& spec)
    : seed_(seed), epoch_(epoch), samples_(samples), spec_(spec) {
  if (spec.order == SampleOrder::file) return;
  std::int64_t items = samples;
  if (spec.order == SampleOrder::blocks) {
    require(spec.block > 0 && spec.buffer > 0 && spec.buffer % spec.block == 0, "a buffer of ", spec.buffer,
            " samples is not made of blocks of ", spec.block);
    items /= spec.block;
  }
  if (items > 0)
    permutation_.emplace(seed, random_order, static_cast<std::uint64_t>(epoch),
                         static_cast<std::uint64_t>(items));
}

ClassSamples::ClassSamples(std::span<const std::int32_t> labels) : samples_(labels.size()) {
  const std::int32_t classes = labels.empty() ? 0 : std::ranges::max(labels) + 1;
  std::vector<std::int64_t> ends(static_cast<std::size_t>(classes) + 1);
  for (const std::int32_t label : labels) ++ends[static_cast<std::size_t>(label) + 1];
  for (std::size_t i = 1; i < ends.size(); ++i) ends[i] += ends[i - 1];
  begins_ = ends;
  begins_.erase(std::ranges::unique(begins_).begin(), begins_.end());  // without classes that do not occur
  for (std::size_t i = 0; i < labels.size(); ++i)
    samples_[static_cast<std::size_t>(ends[static_cast<std::size_t>(labels[i])]++)] =
        static_cast<std::int64_t>(i);
}

std::span<const std::int64_t> ClassSamples::of(std::int64_t number) const {
  const std::int64_t begin = begins_[static_cast<std::size_t>(number)];
  const std::int64_t end = begins_[static_cast<std::size_t>(number) + 1];
  return std::span(samples_).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

EpochOrder::EpochOrder(std::uint64_t seed, std::int64_t epoch, std::shared_ptr<const ClassSamples> classes)
    : seed_(seed), epoch_(epoch), samples_(0), classes_(std::move(classes)) {}

std::int64_t EpochOrder::balanced(std::int64_t position) {
  const std::int64_t classes = classes_->classes();
  const std::int64_t round = position / classes;
  const auto epoch = static_cast<std::uint64_t>(epoch_);
  if (round != window_) {
    window_order_.emplace(seed_, random_order, epoch | static_cast<std::uint64_t>(round + 1) << window_shift,
                          static_cast<std::uint64_t>(classes));
    window_ = round;
  }
  const std::int64_t number = at(*window_order_, position % classes);
  const std::span<const std::int64_t> samples = classes_->of(number);
  const auto count = std::ssize(samples);
  const auto pass = static_cast<std::uint64_t>(round / count);  // through the samples of the class
  const Permutation order(seed_ + epoch * philox_weyl[0], random_classes,
                          static_cast<std::uint64_t>(number) << window_shift | pass,
                          static_cast<std::uint64_t>(count));
  return samples[static_cast<std::size_t>(at(order, round % count))];
}

std::int64_t EpochOrder::in_blocks(std::int64_t position) const {
  const std::int64_t block = position / spec_.block;
  if (block >= samples_ / spec_.block) return position;
  return at(*permutation_, block) * spec_.block + position % spec_.block;
}

std::int64_t EpochOrder::sample(std::int64_t position) {
  if (classes_ != nullptr) return balanced(position);
  if (spec_.order == SampleOrder::file) return position;
  if (!reads_in_order(spec_.order)) return at(*permutation_, position);
  const std::int64_t window = position / spec_.buffer;
  const std::int64_t begin = window * spec_.buffer;
  if (window != window_) {
    window_order_.emplace(seed_, random_order,
                          static_cast<std::uint64_t>(epoch_) | static_cast<std::uint64_t>(window + 1)
                                                                   << window_shift,
                          static_cast<std::uint64_t>(std::min(spec_.buffer, samples_ - begin)));
    window_ = window;
  }
  return in_blocks(begin + at(*window_order_, position - begin));
}

std::int64_t EpochOrder::blocks(std::int64_t window) const {
  const std::int64_t samples = std::min(spec_.buffer, samples_ - window * spec_.buffer);
  return (samples + spec_.block - 1) / spec_.block;
}

SampleRange EpochOrder::block(std::int64_t window, std::int64_t number) const {
  const std::int64_t position = window * spec_.buffer + number * spec_.block;
  return {in_blocks(position), std::min(spec_.block, samples_ - position)};
}

Sampler::Sampler(std::uint64_t seed, const Sharding& sharding) : seed_(seed), sharding_(sharding) {
  check_sharding(sharding);
}

Position Sampler::after(Position position, std::int64_t steps) const {
  const Position first = sharding_.settled(position);
  const std::int64_t here = sharding_.steps_left(first.offset);
  if (steps < here) return {first.epoch, first.offset + steps * sharding_.global_batch()};
  const std::int64_t per_epoch = sharding_.steps_per_epoch();
  const std::int64_t beyond = steps - here;
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): check_sharding() leaves an epoch one step at least
  return {first.epoch + 1 + beyond / per_epoch, beyond % per_epoch * sharding_.global_batch()};
}

EpochOrder Sampler::order(std::int64_t epoch, std::int64_t samples) const {
  if (sharding_.classes != nullptr) return {seed_, epoch, sharding_.classes};
  return {seed_,
          epoch,
          samples,
          {.order = sharding_.order, .block = sharding_.block, .buffer = sharding_.buffer}};
}

std::uint64_t Sampler::variation(std::int64_t epoch) const {
  Random random(seed_, random_augmentation, static_cast<std::uint64_t>(epoch));
  const std::uint64_t high = random.bits();
  return (high << 32) | random.bits();
}

void Sampler::indices(Position position, std::int64_t worker, std::int64_t micro_step,
                      std::span<std::int64_t> out, std::int64_t first) const {
  require(0 <= first && first + std::ssize(out) <= sharding_.batch, "a batch of ", sharding_.batch,
          " has no ", out.size(), " rows from row ", first, " on");
  require(0 <= worker && worker < sharding_.workers && 0 <= micro_step && micro_step < sharding_.micro_steps,
          "worker ", worker, " or micro-step ", micro_step, " is out of range");
  const Position at = sharding_.settled(position);
  std::int64_t begin = 0;
  std::int64_t size = sharding_.samples;
  std::int64_t next = at.offset + (worker * sharding_.micro_steps + micro_step) * sharding_.batch + first;
  if (!sharding_.shares.empty()) {
    begin = sharding_.shares[static_cast<std::size_t>(worker)];
    size = sharding_.shares[static_cast<std::size_t>(worker) + 1] - begin;
    const std::int64_t step = sharding_.steps_through(at.offset);
    next = ((step * sharding_.micro_steps + micro_step) * sharding_.batch + first) % size;
  }
  EpochOrder order = this->order(at.epoch, size);
  for (std::int64_t& index : out) {
    // A global batch is never larger than the data, but a batch may be larger than a share.
    while (next >= size) next -= size;
    index = begin + order.sample(next);
    ++next;
  }
}

std::int64_t Sampler::substitute(std::int64_t sample, std::int64_t attempt) const {
  Random random(seed_, random_replacement, static_cast<std::uint64_t>(sample));
  std::uint64_t chosen = 0;
  for (std::int64_t i = 0; i <= attempt; ++i)
    chosen = random.below(static_cast<std::uint64_t>(sharding_.samples));
  return static_cast<std::int64_t>(chosen);
}

ValidationShard validation_shard(std::int64_t samples, std::int64_t workers, std::int64_t worker) {
  require(samples >= 0 && workers > 0 && 0 <= worker && worker < workers, "no shard ", worker, " of ",
          workers, " for ", samples, " samples");
  const std::int64_t each = samples / workers;
  const std::int64_t larger = samples % workers;  // the first workers take one sample more
  const std::int64_t begin = worker * each + std::min(worker, larger);
  return {begin, begin + each + (worker < larger ? 1 : 0)};
}

}  // namespace flotilla
