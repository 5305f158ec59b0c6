// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/slice_exchange.hpp"

#include <iterator>

#include "kernels/error.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/collective_checks.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

std::size_t size_of(SliceBounds slice) {
  return slice.end - slice.begin;
}

std::size_t bytes_of(SliceBounds slice) {
  return size_of(slice) * sizeof(float);
}

}  // namespace

SliceExchange::SliceExchange(const Communicator& group, int owners)
    : messages_(group), owners_(owners), arrays_(static_cast<std::size_t>(group.size())) {
  require(owners > 0 && owners <= group.size(), owners, " owners of slices among ", group.size(), " ranks");
}

SliceBounds SliceExchange::slice_of_owner(std::size_t count, int rank) const {
  return rank < owners_ ? slice_of(0, count, rank, owners_) : SliceBounds{};
}

void SliceExchange::reduce_scatter(std::span<float> data, const CallSite& at) {
  require(data.size() <= largest_count, "an exchange of ", data.size(), " values at once");
  if (ranks() == 1) return;
  const CollectiveScope call(messages_.group(), "reduce-scatter of slices", type_word<float>(),
                             std::ssize(data), at);
  const SliceBounds mine = slice(data.size());
  const std::size_t needed = static_cast<std::size_t>(ranks() - 1) * size_of(mine);
  if (incoming_.size() < needed) incoming_.resize(needed);
  // Each rank begins with the next one, so that not all send to the first.
  arrays_[static_cast<std::size_t>(rank())] = data.data() + mine.begin;
  for (int step = 1; step < ranks(); ++step) {
    const int from = (rank() + ranks() - step) % ranks();
    float* const to = incoming_.data() + static_cast<std::size_t>(step - 1) * size_of(mine);
    arrays_[static_cast<std::size_t>(from)] = to;
    messages_.receive(to, bytes_of(mine), from);
  }
  for (int step = 1; step < ranks(); ++step) {
    const int to = (rank() + step) % ranks();
    const SliceBounds theirs = slice_of_owner(data.size(), to);
    messages_.send(data.data() + theirs.begin, bytes_of(theirs), to);
  }
  messages_.wait();
  sum_to(data.data() + mine.begin, arrays_, size_of(mine));
}

void SliceExchange::all_gather(std::span<float> data, const CallSite& at) {
  require(data.size() <= largest_count, "an exchange of ", data.size(), " values at once");
  if (ranks() == 1) return;
  const CollectiveScope call(messages_.group(), "all-gather of slices", type_word<float>(), std::ssize(data),
                             at);
  for (int step = 1; step < ranks(); ++step) {
    const int from = (rank() + ranks() - step) % ranks();
    const SliceBounds theirs = slice_of_owner(data.size(), from);
    messages_.receive(data.data() + theirs.begin, bytes_of(theirs), from);
  }
  const SliceBounds mine = slice(data.size());
  for (int step = 1; step < ranks(); ++step)
    messages_.send(data.data() + mine.begin, bytes_of(mine), (rank() + step) % ranks());
  messages_.wait();
}

std::size_t SliceExchange::sent_bytes(std::size_t count) const {
  const std::size_t mine = size_of(slice(count));
  return (count - mine + mine * static_cast<std::size_t>(ranks() - 1)) * sizeof(float);
}

}  // namespace flotilla::mpi
