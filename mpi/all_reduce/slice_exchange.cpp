// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/slice_exchange.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "kernels/error.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr int slice_tag = 2;
constexpr std::size_t block = 2048;  // the sum stays in the first-level cache while the ranks' values pass by

std::size_t size_of(SliceBounds slice) {
  return slice.end - slice.begin;
}

}  // namespace

SliceExchange::SliceExchange(const Communicator& group, int owners, Wire wire)
    : group_(group.collective_clone()),
      owners_(owners),
      wire_(wire),
      value_bytes_(bytes_per_value(wire)),
      arrays_(static_cast<std::size_t>(group.size())),
      expected_(static_cast<std::size_t>(group.size())) {
  require(owners > 0 && owners <= group.size(), owners, " owners of slices among ", group.size(), " ranks");
  const std::size_t most = 2 * static_cast<std::size_t>(group.size());
  requests_.reserve(most);
  from_.reserve(most);
  finished_.resize(most);
}

SliceBounds SliceExchange::slice_of_owner(std::size_t count, int rank) const {
  return rank < owners_ ? slice_of(0, count, rank, owners_) : SliceBounds{};
}

void SliceExchange::receive(std::byte* to, std::size_t count, int from) {
  if (count == 0) return;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Irecv(to, static_cast<int>(count * value_bytes_), MPI_BYTE, from, slice_tag,
                  NativeHandle::of(group_), &request),
        "MPI_Irecv");
  requests_.push_back(request);
  from_.push_back(from);
  expected_[static_cast<std::size_t>(from)].store(true, std::memory_order_relaxed);
}

void SliceExchange::send(const std::byte* from, std::size_t count, int to) {
  if (count == 0) return;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(from, static_cast<int>(count * value_bytes_), MPI_BYTE, to, slice_tag,
                  NativeHandle::of(group_), &request),
        "MPI_Isend");
  requests_.push_back(request);
  from_.push_back(-1);
}

// MPI_Waitsome is avoided because it keeps a processor busy: the computation needs it, and so does the
// kernel's own network thread, whose buffers keep the wire busy meanwhile.
void SliceExchange::wait() {
  std::size_t left = requests_.size();
  constexpr int spins = 16;
  constexpr std::int64_t yield_ns = 50'000;
  Backoff backoff(spins, yield_ns);
  while (left > 0) {
    int count = 0;
    check(MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, finished_.data(),
                       MPI_STATUSES_IGNORE),
          "MPI_Testsome");
    if (count == 0) {
      backoff.pause();
      continue;
    }
    backoff = Backoff(spins, yield_ns);
    for (const int index : std::span(finished_).first(static_cast<std::size_t>(count))) {
      const int from = from_[static_cast<std::size_t>(index)];
      if (from >= 0) expected_[static_cast<std::size_t>(from)].store(false, std::memory_order_relaxed);
    }
    left -= static_cast<std::size_t>(count);
  }
  requests_.clear();
  from_.clear();
}

/// The slice as it travels.
const std::byte* SliceExchange::encoded(std::span<const float> data, SliceBounds slice) {
  const auto values = data.subspan(slice.begin, size_of(slice));
  if (wire_ == Wire::float32) return reinterpret_cast<const std::byte*>(values.data());
  std::byte* to = outgoing_.data() + slice.begin * value_bytes_;
  encode(wire_, values, to);
  return to;
}

void SliceExchange::reduce_scatter(std::span<float> data, const CallSite& at) {
  require(data.size() <= largest_count, "an exchange of ", data.size(), " values at once");
  if (ranks() == 1) return;
  const CollectiveScope call(group_, "reduce-scatter of slices", type_word<float>(), std::ssize(data), at);
  const SliceBounds mine = slice(data.size());
  const auto others = static_cast<std::size_t>(ranks() - 1);
  grown(incoming_, others * size_of(mine) * value_bytes_);
  if (wire_ != Wire::float32) grown(outgoing_, data.size() * value_bytes_);
  // Each rank begins with the next one, so that not all send to the first.
  for (int step = 1; step < ranks(); ++step) {
    const int from = (group_.rank() + ranks() - step) % ranks();
    const int slot = from < group_.rank() ? from : from - 1;
    receive(incoming_.data() + static_cast<std::size_t>(slot) * size_of(mine) * value_bytes_, size_of(mine),
            from);
  }
  for (int step = 1; step < ranks(); ++step) {
    const int to = (group_.rank() + step) % ranks();
    const SliceBounds theirs = slice_of_owner(data.size(), to);
    send(encoded(data, theirs), size_of(theirs), to);
  }
  encoded(data, mine);
  wait();
  add_up(data, mine);
}

void SliceExchange::add_up(std::span<float> data, SliceBounds mine) {
  if (wire_ != Wire::float32) return decode_and_add_up(data, mine);
  const auto* received = reinterpret_cast<const float*>(incoming_.data());
  for (int rank = 0; rank < ranks(); ++rank) {
    const auto slot = static_cast<std::size_t>(rank < group_.rank() ? rank : rank - 1);
    arrays_[static_cast<std::size_t>(rank)] =
        rank == group_.rank() ? data.data() + mine.begin : received + slot * size_of(mine);
  }
  sum_to(data.data() + mine.begin, arrays_, size_of(mine));
}

void SliceExchange::decode_and_add_up(std::span<float> data, SliceBounds mine) const {
  alignas(64) std::array<float, block> sum;
  for (std::size_t at = mine.begin; at < mine.end; at += block) {
    const std::size_t count = std::min(block, mine.end - at);
    const auto part = std::span(sum).first(count);
    for (int rank = 0; rank < ranks(); ++rank) {
      const int slot = rank < group_.rank() ? rank : rank - 1;
      const std::byte* from =
          rank != group_.rank()
              ? incoming_.data() +
                    (static_cast<std::size_t>(slot) * size_of(mine) + at - mine.begin) * value_bytes_
              : outgoing_.data() + at * value_bytes_;
      if (rank == 0) {
        decode(wire_, from, part);
      } else {
        decode_and_add(wire_, from, part);
      }
    }
    std::ranges::copy(part, data.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

void SliceExchange::all_gather(std::span<float> data, const CallSite& at) {
  require(data.size() <= largest_count, "an exchange of ", data.size(), " values at once");
  if (ranks() == 1) return;
  const CollectiveScope call(group_, "all-gather of slices", type_word<float>(), std::ssize(data), at);
  const bool as_it_is = wire_ == Wire::float32;
  if (!as_it_is) {
    grown(incoming_, data.size() * value_bytes_);
    grown(outgoing_, data.size() * value_bytes_);
  }
  std::byte* to = as_it_is ? reinterpret_cast<std::byte*>(data.data()) : incoming_.data();
  for (int step = 1; step < ranks(); ++step) {
    const int from = (group_.rank() + ranks() - step) % ranks();
    const SliceBounds theirs = slice_of_owner(data.size(), from);
    receive(to + theirs.begin * value_bytes_, size_of(theirs), from);
  }
  const SliceBounds mine = slice(data.size());
  const std::byte* own = encoded(data, mine);
  for (int step = 1; step < ranks(); ++step) send(own, size_of(mine), (group_.rank() + step) % ranks());
  if (as_it_is) return wait();
  decode(wire_, own, data.subspan(mine.begin, size_of(mine)));
  wait();
  decode(wire_, incoming_.data(), data.first(mine.begin));
  decode(wire_, incoming_.data() + mine.end * value_bytes_, data.subspan(mine.end));
}

std::size_t SliceExchange::sent_bytes(std::size_t count) const {
  const std::size_t mine = size_of(slice(count));
  return (count - mine + mine * static_cast<std::size_t>(ranks() - 1)) * value_bytes_;
}

std::vector<int> SliceExchange::missing_ranks() const {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < expected_.size(); ++rank)
    if (expected_[rank].load(std::memory_order_relaxed)) missing.push_back(static_cast<int>(rank));
  return missing;
}

}  // namespace flotilla::mpi
