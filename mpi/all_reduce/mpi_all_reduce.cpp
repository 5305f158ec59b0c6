// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/messages.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/all_reduce/sum_tree.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/environment.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

class MpiAllReduce final : public Collectives {
 public:
  explicit MpiAllReduce(const Communicator& group) : group_(group.collective_clone()) {}

  int ranks() const override { return group_.size(); }
  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    const std::span<float> data = host_span(array);
    for_each_piece(data.size(), mpi_all_reduce_piece, [&](std::size_t offset, int count) {
      group_.all_reduce(data.subspan(offset, static_cast<std::size_t>(count)), Op::sum, at);
    });
  }

  std::size_t sent_bytes(std::size_t count) const override {
    // Reduce-scatter and all-gather: 2 (n − 1) / n of the data (Rabenseifner's and the ring algorithm alike).
    const auto n = static_cast<std::size_t>(group_.size());
    return 2 * (n - 1) * count * sizeof(float) / n;
  }

 private:
  Communicator group_;
};

std::size_t values_in(SliceBounds slice) {
  return slice.end - slice.begin;
}

/// The number of each rank's host; empty if there is only one.
std::vector<int> hosts_of(const Communicator& group) {
  const Communicator host = group.split_by_host();
  int first = group.rank();
  host.all_reduce(std::span(&first, 1), Op::min);
  std::vector<int> hosts = group.all_gather(std::span<const int>(&first, 1));
  if (std::ranges::count(hosts, hosts.front()) == std::ssize(hosts)) hosts.clear();
  return hosts;
}

/// By the steps of sum_tree.hpp: MPI has no half type to add and names no order.
class TreeAllReduce final : public Collectives {
 public:
  TreeAllReduce(const Communicator& group, Wire wire) : messages_(new Messages(group)), wire_(wire) {
    if (wire != Wire::float32) hosts_ = hosts_of(group);
  }

  int ranks() const override { return messages_->group().size(); }
  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    if (ranks() == 1) return;
    const std::span<float> data = host_span(array);
    for_each_piece(data.size(), mpi_all_reduce_piece, [&](std::size_t offset, int count) {
      const CollectiveScope call(messages_->group(), "all-reduce in a tree", type_word<float>(), count, at);
      for (const SumStep& step : steps(static_cast<std::size_t>(count)))
        take(step, data.subspan(offset, static_cast<std::size_t>(count)));
    });
  }

  std::size_t sent_bytes(std::size_t count) const override {
    std::size_t sum = 0;
    for_each_piece(count, mpi_all_reduce_piece, [&](std::size_t, int piece) {
      for (const SumStep& step : steps(static_cast<std::size_t>(piece)))
        for (const SumStep::Part& part : step.sends)
          sum += values_in(part.slice) * bytes_per_value(step.wire);
    });
    return sum;
  }

  std::vector<int> missing_ranks() const override { return messages_->missing_ranks(); }

 private:
  /// Made once for each length; a run has few. From any thread.
  const std::vector<SumStep>& steps(std::size_t count) const {
    const std::scoped_lock lock(mutex_);
    const auto [at, is_new] = steps_.try_emplace(count);
    if (is_new) at->second = sum_steps(ranks(), messages_->group().rank(), count, wire_, hosts_);
    return at->second;
  }

  void take(const SumStep& step, std::span<float> data) {
    const bool adds = values_in(step.sum) > 0;
    const std::size_t bytes = bytes_per_value(step.wire);
    const bool in_place = !adds && step.wire == Wire::float32;
    std::size_t arriving = 0;
    for (const SumStep::Part& part : step.receives) arriving += values_in(part.slice) * bytes;
    if (!in_place) grown(incoming_, arriving);
    std::byte* to = incoming_.data();
    for (const SumStep::Part& part : step.receives) {
      const std::size_t length = values_in(part.slice) * bytes;
      messages_->receive(in_place ? static_cast<void*>(data.data() + part.slice.begin) : to, length,
                         part.rank);
      to += length;
    }
    // As if the values had travelled: the bits do not depend on the rank that adds them.
    const auto rounded = data.subspan(step.rounded.begin, values_in(step.rounded));
    if (!rounded.empty()) encode(step.wire, rounded, encoded(step.rounded, step.wire, data));
    const SliceBounds* last = &step.rounded;
    for (const SumStep::Part& part : step.sends) {
      const float* const values = data.data() + part.slice.begin;
      if (step.wire == Wire::float32) {
        messages_->send(values, values_in(part.slice) * bytes, part.rank);
        continue;
      }
      std::byte* const outgoing = encoded(part.slice, step.wire, data);
      if (part.slice != *last) encode(step.wire, {values, values_in(part.slice)}, outgoing);
      last = &part.slice;
      messages_->send(outgoing, values_in(part.slice) * bytes, part.rank);
    }
    if (!rounded.empty() && !adds) decode(step.wire, encoded(step.rounded, step.wire, data), rounded);
    messages_->wait();
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
  std::byte* encoded(SliceBounds slice, Wire wire, std::span<float> data) {
    const std::size_t bytes = bytes_per_value(wire);
    return grown(outgoing_, data.size() * bytes) + slice.begin * bytes;
  }

  /// The number of ranks before this one of whom `step` receives; it receives in their order.
  std::size_t own_place(const SumStep& step) const {
    const int own = messages_->group().rank();
    return static_cast<std::size_t>(
        std::ranges::count_if(step.receives, [own](const SumStep::Part& part) { return part.rank < own; }));
  }

  void add(const SumStep& step, std::span<float> data) {
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
  void decode_and_add_up(const SumStep& step, std::span<float> data) const {
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

  std::unique_ptr<Messages, LeaveWhileThrowing<Messages>> messages_;
  Wire wire_;
  std::vector<int> hosts_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::vector<SumStep>> steps_;  ///< By the length of the array
  std::vector<std::byte> outgoing_;                            ///< An array, encoded
  std::vector<std::byte> incoming_;
  std::vector<const float*> arrays_;  ///< What is added, in its order
};

}  // namespace

std::unique_ptr<Collectives> make_mpi_all_reduce(const Communicator& group, Wire wire, SumOrder order) {
  require(order == SumOrder::any || wire == Wire::float32, "the tree's order on a half wire");
  if (wire == Wire::float32 && order == SumOrder::any) return std::make_unique<MpiAllReduce>(group);
  return std::make_unique<TreeAllReduce>(group, wire);
}

}  // namespace flotilla::mpi
