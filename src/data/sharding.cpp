// SPDX-License-Identifier: Apache-2.0
#include "src/data/sharding.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <string>

#include "kernels/error.hpp"
#include "src/data/mixup.hpp"

namespace flotilla {

namespace {

bool is_subtree(std::int64_t shards, std::int64_t workers) {
  return workers == 1 ||
         (shards % workers == 0 && std::has_single_bit(static_cast<std::uint64_t>(shards / workers)));
}

std::int64_t rounded_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Steps of an epoch where each worker has a share of its own.
std::int64_t steps_of_shares(const Sharding& sharding) {
  const std::int64_t each = sharding.batch * sharding.micro_steps;
  std::int64_t steps = 0;
  for (std::size_t worker = 0; worker + 1 < sharding.shares.size(); ++worker) {
    const std::int64_t share = sharding.shares[worker + 1] - sharding.shares[worker];
    if (!sharding.drop_last) {
      steps = std::max(steps, rounded_up(share, each));
    } else if (worker == 0 || share / each < steps) {
      steps = share / each;
    }
  }
  return steps;
}

}  // namespace

std::int64_t Sharding::steps_per_epoch() const {
  return steps_left(0);
}

std::int64_t Sharding::consumed_per_epoch() const {
  return shares.empty() ? samples : steps_per_epoch() * global_batch();
}

std::int64_t Sharding::steps_until(const Position& position, std::int64_t epochs) const {
  if (position.epoch >= epochs) return 0;
  return steps_left(position.offset) + (epochs - position.epoch - 1) * steps_per_epoch();
}

std::int64_t Sharding::steps_before(const Position& position) const {
  return (position.epoch + 1) * steps_per_epoch() - steps_left(position.offset);
}

std::int64_t Sharding::batch_before(const Position& position) const {
  return steps_per_epoch() - (position.offset == 0 ? 0 : steps_left(position.offset));
}

std::int64_t Sharding::steps_left(std::int64_t offset) const {
  if (!shares.empty()) return std::max<std::int64_t>(steps_of_shares(*this) - steps_through(offset), 0);
  const std::int64_t left = std::max<std::int64_t>(samples - offset, 0);
  return drop_last ? left / global_batch() : rounded_up(left, global_batch());
}

std::int64_t Sharding::steps_through(std::int64_t offset) const {
  return rounded_up(offset, global_batch());
}

Position Sharding::settled(const Position& position) const {
  return steps_left(position.offset) > 0 ? position : Position{position.epoch + 1, 0};
}

void check_sharding(const Sharding& sharding) {
  require(sharding.samples > 0 && sharding.workers > 0 && sharding.batch > 0 && sharding.micro_steps > 0,
          "a sharding needs positive numbers, got ", sharding.samples, " samples, ", sharding.workers,
          " workers, batch ", sharding.batch, ", ", sharding.micro_steps, " micro-steps");
  if (sharding.workers > sharding.samples) {
    throw UserError(cat("more ranks than samples: ", sharding.workers, " ranks are to share ",
                        sharding.samples, " training samples; start at most ", sharding.samples,
                        " ranks or give more data (data.train)"));
  }
  // The quotient instead of the product, which might overflow.
  const std::int64_t most = sharding.samples / sharding.workers / sharding.micro_steps;
  if (sharding.batch > most) {
    const std::string remedy =
        most > 0 ? cat("train.batch_size may be at most ", most, " here, train.global_batch_size at most ",
                       most * sharding.workers * sharding.micro_steps)
                 : cat("use fewer ranks or fewer train.accumulate_steps");
    throw UserError(
        cat("batch larger than the data: one step takes ", sharding.batch, " samples on each of ",
            sharding.workers, sharding.workers == 1 ? " rank" : " ranks",
            sharding.micro_steps == 1 ? "" : cat(" in each of ", sharding.micro_steps, " micro-steps"),
            ", but the training data (data.train) has ", sharding.samples, "; ", remedy));
  }
  for (std::size_t worker = 0; worker + 1 < sharding.shares.size(); ++worker) {
    const std::int64_t share = sharding.shares[worker + 1] - sharding.shares[worker];
    const std::int64_t least = sharding.drop_last ? sharding.batch * sharding.micro_steps : 1;
    if (share >= least) continue;
    throw UserError(cat("worker ", worker, " gets ", share, share == 1 ? " sample" : " samples",
                        " of the training data (data.train) by data.deal, but needs ", least,
                        "; start fewer ranks, or set data.deal to \"bytes\" or \"samples\""));
  }
}

std::int64_t shards_per_worker(std::int64_t shards, int workers) {
  if (is_subtree(shards, workers)) return shards / workers;
  std::string good;
  for (std::int64_t count = 1; count <= shards; ++count)
    if (is_subtree(shards, count)) good += cat(good.empty() ? "" : ", ", count);
  throw UserError(cat("run.reproducible: ", shards,
                      " shards (run.virtual_shards) cannot be added in one tree by ", workers,
                      " workers; worker counts that can: ", good, " (each with a power of two of shards)"));
}

std::string divisors_of(std::int64_t number) {
  std::string text;
  for (std::int64_t divisor = 1; divisor <= number; ++divisor)
    if (number % divisor == 0) text += cat(text.empty() ? "" : ", ", divisor);
  return text;
}

Sharding make_sharding(const Config& config, std::int64_t samples, int workers) {
  const TrainConfig& train = config.train;
  std::int64_t batch = train.batch_size;
  std::int64_t micro_steps = train.accumulate_steps;
  if (config.run.reproducible) {
    micro_steps = shards_per_worker(config.run.virtual_shards, workers);
    batch = train.global_batch_size / config.run.virtual_shards;
  } else if (batch == 0) {
    const std::int64_t parts = workers * train.accumulate_steps;
    if (train.global_batch_size % parts != 0)
      throw UserError(cat(
          "train.global_batch_size = ", train.global_batch_size, " cannot be divided by ", workers,
          workers == 1 ? " worker" : " workers",
          train.accumulate_steps > 1 ? cat(" × ", train.accumulate_steps, " micro-steps") : "",
          "; worker counts that do: ",
          divisors_of(train.global_batch_size / std::gcd(train.global_batch_size, train.accumulate_steps))));
    batch = train.global_batch_size / parts;
  }
  const Sharding sharding{.samples = samples,
                          .workers = workers,
                          .batch = batch,
                          .micro_steps = micro_steps,
                          .drop_last = config.data.last_batch == LastBatch::drop,
                          .order = config.data.order,
                          .block = config.data.shuffle_block,
                          .buffer = config.data.shuffle_buffer};
  check_sharding(sharding);
  if (train.mixes_pairs()) check_pairs(sharding, train.global_batch_size, train.pairs_key());
  return sharding;
}

}  // namespace flotilla
