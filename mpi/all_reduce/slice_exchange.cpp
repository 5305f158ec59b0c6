// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/slice_exchange.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

std::size_t values_in(SliceBounds slice) {
  return slice.end - slice.begin;
}

}  // namespace

SliceExchange::SliceExchange(const Communicator& group, MakeSteps make_steps)
    : messages_(group), make_steps_(std::move(make_steps)) {}

std::span<const SumStep> SliceExchange::steps(std::size_t count) const {
  const std::scoped_lock lock(mutex_);
  const auto [at, is_new] = steps_.try_emplace(count);
  if (is_new) at->second = make_steps_(count);
  return at->second;
}

void SliceExchange::take(std::span<const SumStep> steps, std::span<float> data, const char* kind,
                         const CallSite& at) {
  if (ranks() == 1) return;
  const CollectiveScope call(messages_.group(), kind, type_word<float>(), std::ssize(data), at);
  for (const SumStep& step : steps) take(step, data);
}

std::size_t SliceExchange::sent_bytes(std::size_t count) const {
  std::size_t sum = 0;
  for (const SumStep& step : steps(count))
    for (const SumStep::Part& part : step.sends) sum += values_in(part.slice) * bytes_per_value(step.wire);
  return sum;
}

void SliceExchange::take(const SumStep& step, std::span<float> data) {
  const bool adds = values_in(step.sum) > 0;
  const std::size_t bytes = bytes_per_value(step.wire);
  const bool in_place = !adds && step.wire == Wire::float32;
  std::size_t arriving = 0;
  for (const SumStep::Part& part : step.receives) arriving += values_in(part.slice) * bytes;
  if (!in_place) grown(incoming_, arriving);
  std::byte* to = incoming_.data();
  for (const SumStep::Part& part : step.receives) {
    const std::size_t length = values_in(part.slice) * bytes;
    messages_.receive(in_place ? static_cast<void*>(data.data() + part.slice.begin) : to, length, part.rank);
    to += length;
  }
  // As if the values had travelled: the bits do not depend on the rank that adds them.
  const auto rounded = data.subspan(step.rounded.begin, values_in(step.rounded));
  if (!rounded.empty()) encode(step.wire, rounded, encoded(step.rounded, step.wire, data));
  const SliceBounds* last = &step.rounded;
  for (const SumStep::Part& part : step.sends) {
    const float* const values = data.data() + part.slice.begin;
    if (step.wire == Wire::float32) {
      messages_.send(values, values_in(part.slice) * bytes, part.rank);
      continue;
    }
    std::byte* const outgoing = encoded(part.slice, step.wire, data);
    if (part.slice != *last) encode(step.wire, {values, values_in(part.slice)}, outgoing);
    last = &part.slice;
    messages_.send(outgoing, values_in(part.slice) * bytes, part.rank);
  }
  if (!rounded.empty() && !adds) decode(step.wire, encoded(step.rounded, step.wire, data), rounded);
  messages_.wait();
  if (adds) {
    step.wire == Wire::float32 ? add(step, data) : decode_and_add_up(step, data);
  } else if (!in_place) {
    const std::byte* from = incoming_.data();
    for (const SumStep::Part& part : step.receives) {
      decode(step.wire, from, data.subspan(part.slice.begin, values_in(part.slice)));
      from += values_in(part.slice) * bytes;
    }
  }
}

/// Where `slice` is in outgoing_.
std::byte* SliceExchange::encoded(SliceBounds slice, Wire wire, std::span<float> data) {
  const std::size_t bytes = bytes_per_value(wire);
  return grown(outgoing_, data.size() * bytes) + slice.begin * bytes;
}

/// The number of ranks before this one of whom `step` receives; it receives in their order.
std::size_t SliceExchange::own_place(const SumStep& step) const {
  const int own = messages_.group().rank();
  return static_cast<std::size_t>(
      std::ranges::count_if(step.receives, [own](const SumStep::Part& part) { return part.rank < own; }));
}

void SliceExchange::add(const SumStep& step, std::span<float> data) {
  const std::size_t size = values_in(step.sum);
  float* const own = data.data() + step.sum.begin;
  arrays_.assign(step.receives.size() + 1, own);
  const auto* received = reinterpret_cast<const float*>(incoming_.data());
  for (std::size_t i = 0, place = own_place(step); i < arrays_.size(); ++i)
    if (i != place) arrays_[i] = std::exchange(received, received + size);
  sum_to(own, arrays_, size);
}

/// In rank order; a block of the sum stays in the first-level cache while the ranks' values pass by.
/// This rank's values are those that are encoded where they are to be rounded.
void SliceExchange::decode_and_add_up(const SumStep& step, std::span<float> data) const {
  constexpr std::size_t block = 2048;
  alignas(64) std::array<float, block> sum;
  const std::size_t bytes = bytes_per_value(step.wire);
  const std::size_t place = own_place(step);
  const bool is_rounded = step.rounded == step.sum;
  for (std::size_t at = step.sum.begin; at < step.sum.end; at += block) {
    const auto own = data.subspan(at, std::min(block, step.sum.end - at));
    const auto part = std::span(sum).first(own.size());
    const std::byte* received = incoming_.data() + (at - step.sum.begin) * bytes;
    for (std::size_t i = 0; i <= step.receives.size(); ++i) {
      if (i != place || is_rounded) {
        const std::byte* const from = i == place
                                          ? outgoing_.data() + at * bytes
                                          : std::exchange(received, received + values_in(step.sum) * bytes);
        i == 0 ? decode(step.wire, from, part) : decode_and_add(step.wire, from, part);
      } else if (i == 0) {
        std::ranges::copy(own, part.begin());
      } else {
        for (std::size_t j = 0; j < part.size(); ++j) part[j] += own[j];
      }
    }
    std::ranges::copy(part, own.begin());
  }
}

}  // namespace flotilla::mpi
