// SPDX-License-Identifier: Apache-2.0
#include "src/data/epoch_order.hpp"

#include <algorithm>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

// Windows' permutations are streams of random_order beside the epochs', whose numbers lie below.
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

std::int64_t EpochOrder::in_blocks(std::int64_t position) const {
  const std::int64_t block = position / spec_.block;
  if (block >= samples_ / spec_.block) return position;
  return at(*permutation_, block) * spec_.block + position % spec_.block;
}

std::int64_t EpochOrder::sample(std::int64_t position) {
  if (spec_.order == SampleOrder::file) return position;
  if (spec_.order == SampleOrder::shuffled) return at(*permutation_, position);
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

}  // namespace flotilla
