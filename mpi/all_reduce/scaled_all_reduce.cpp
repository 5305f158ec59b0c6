// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/messages.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/environment.hpp"
#include "mpi/core/scaled_wire.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

class ScaledAllReduce final : public Collectives {
 public:
  ScaledAllReduce(const Communicator& group, Wire wire, const WireRounding& rounding)
      : messages_(new Messages(group)), wire_(wire), rounding_(rounding) {}

  int ranks() const override { return messages_->group().size(); }

  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    if (ranks() == 1) return;
    const std::span<float> data = host_span(array);
    for_each_piece(data.size(), mpi_all_reduce_piece, [&](std::size_t offset, int count) {
      const CollectiveScope call(messages_->group(), "all-reduce of scaled slices", type_word<float>(), count,
                                 at);
      const auto piece = data.subspan(offset, static_cast<std::size_t>(count));
      reduce_scatter(piece, at.step);
      all_gather(piece, at.step);
    });
  }

  std::size_t sent_bytes(std::size_t count) const override {
    std::size_t sum = 0;
    for_each_piece(count, mpi_all_reduce_piece, [&](std::size_t, int piece) {
      for (int other = 0; other < ranks(); ++other)
        sum += other == rank() ? static_cast<std::size_t>(ranks() - 1) * bytes_of(slice(piece, rank()))
                               : bytes_of(slice(piece, other));
    });
    return sum;
  }

  std::vector<int> missing_ranks() const override { return messages_->missing_ranks(); }

 private:
  int rank() const { return messages_->group().rank(); }
  SliceBounds slice(std::size_t count, int owner) const { return slice_of(0, count, owner, ranks()); }
  std::size_t bytes_of(SliceBounds slice) const { return encoded_bytes(wire_, slice.end - slice.begin); }

  /// Each rank begins with the next one, so that not all send to the first.
  template <class F>
  void for_each_other(F&& f) const {
    for (int ahead = 1; ahead < ranks(); ++ahead) f((rank() + ahead) % ranks());
  }

  RoundedValues part(std::span<float> data, SliceBounds slice) const {
    const std::span<float> values = data.subspan(slice.begin, slice.end - slice.begin);
    if (values.empty()) return {};
    const auto first = static_cast<std::size_t>(values.data() - rounding_.array) % rounding_.errors.size();
    require(std::less_equal<>()(rounding_.array, values.data()) &&
                first + values.size() <= rounding_.errors.size(),
            "an all-reduce of ", values.size(), " values whose rounding is not kept");
    return {values, rounding_.errors.subspan(first, values.size()), first};
  }

  /// @param stream 0 for contributions, 1 for sums
  RoundingDraws draws(std::int64_t step, int stream) const {
    if (!rounding_.stochastic) return {};
    return {rounding_.seed, static_cast<std::uint64_t>(step),
            static_cast<std::uint32_t>(2 * rank() + stream)};
  }

  void reduce_scatter(std::span<float> data, std::int64_t step) {
    const SliceBounds mine = slice(data.size(), rank());
    const std::size_t own_bytes = bytes_of(mine);
    std::byte* to = grown(incoming_, own_bytes * static_cast<std::size_t>(ranks()));
    for_each_other([&](int from) {
      messages_->receive(to + own_bytes * static_cast<std::size_t>(from), own_bytes, from);
    });
    std::size_t total = 0;
    for_each_other([&](int other) { total += bytes_of(slice(data.size(), other)); });
    std::byte* outgoing = grown(outgoing_, total);
    for_each_other([&](int other) {
      const SliceBounds theirs = slice(data.size(), other);
      encode_scaled(wire_, part(data, theirs), draws(step, 0), outgoing);
      messages_->send(outgoing, bytes_of(theirs), other);
      outgoing += bytes_of(theirs);
    });
    messages_->wait();
    add_up(part(data, mine), own_bytes);
  }

  /// own.values ← the sum, in rank order; a block of it stays in the first-level cache meanwhile.
  void add_up(const RoundedValues& own, std::size_t own_bytes) {
    alignas(64) std::array<float, scale_block> room;
    const std::size_t block_bytes = encoded_bytes(wire_, scale_block);
    for (std::size_t at = 0; at < own.values.size(); at += scale_block) {
      const auto values = own.values.subspan(at, std::min(scale_block, own.values.size() - at));
      const auto errors = own.errors.subspan(at, values.size());
      const auto sum = std::span(room).first(values.size());
      std::ranges::fill(sum, 0.0F);
      for (int from = 0; from < ranks(); ++from) {
        const std::byte* const bytes =
            incoming_.data() + own_bytes * static_cast<std::size_t>(from) + at / scale_block * block_bytes;
        if (from != rank()) {
          decode_and_add(wire_, bytes, sum);
        } else {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i] + errors[i];
        }
      }
      std::ranges::copy(sum, values.begin());
      std::ranges::fill(errors, 0.0F);
    }
  }

  void all_gather(std::span<float> data, std::int64_t step) {
    const auto begin_of = [&](int owner) {
      std::size_t bytes = 0;
      for (int before = 0; before < owner; ++before) bytes += bytes_of(slice(data.size(), before));
      return bytes;
    };
    std::byte* const bytes = grown(incoming_, begin_of(ranks()));
    for_each_other([&](int from) {
      messages_->receive(bytes + begin_of(from), bytes_of(slice(data.size(), from)), from);
    });
    const SliceBounds mine = slice(data.size(), rank());
    std::byte* const outgoing = grown(outgoing_, bytes_of(mine));
    encode_scaled_sum(wire_, part(data, mine), draws(step, 1), outgoing);
    for_each_other([&](int other) { messages_->send(outgoing, bytes_of(mine), other); });
    messages_->wait();
    for_each_other([&](int from) {
      const SliceBounds theirs = slice(data.size(), from);
      decode(wire_, bytes + begin_of(from), data.subspan(theirs.begin, theirs.end - theirs.begin));
    });
  }

  std::unique_ptr<Messages, LeaveWhileThrowing<Messages>> messages_;
  Wire wire_;
  const WireRounding& rounding_;
  std::vector<std::byte> outgoing_;  ///< What this rank has encoded
  std::vector<std::byte> incoming_;
};

}  // namespace

std::unique_ptr<Collectives> make_scaled_all_reduce(const Communicator& group, Wire wire,
                                                    const WireRounding& rounding) {
  return std::make_unique<ScaledAllReduce>(group, wire, rounding);
}

}  // namespace flotilla::mpi
