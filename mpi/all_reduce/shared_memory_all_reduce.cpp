// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/shared_memory_all_reduce.hpp"

#include <unistd.h>

#include <cstdint>
#include <functional>
#include <new>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/sum_arrays.hpp"
#include "mpi/core/backoff.hpp"
#include "mpi/core/native.hpp"
#include "mpi/core/slices.hpp"

namespace flotilla::mpi {

namespace {

/// A hundred microseconds where every rank has a processor: they are seldom further apart, and on a busy
/// machine sched_yield() gives a whole slice of milliseconds away. With more ranks than processors, spinning
/// keeps the others from arriving.
int patience(std::size_t ranks) {
  const long processors = sysconf(_SC_NPROCESSORS_ONLN);
  return processors >= static_cast<long>(ranks) ? 4000 : 64;
}

enum NoteField : std::size_t { note_offset, note_count };

// Passing small sums through mailboxes next to the flags, with one barrier instead of two, took 0.11 instead
// of 0.15 µs for one value and was slower from 1 KiB on: not worth a second code path.
class SharedMemoryAllReduce final : public Collectives {
 public:
  SharedMemoryAllReduce(const Communicator& group, SharedStorage& storage) : group_(group, storage) {
    require(group.size() == storage.ranks() && group.rank() == storage.rank(),
            "shared-memory all-reduce: the group is not that of the storage");
  }

  int ranks() const override { return group_.size(); }

  void all_reduce(DeviceSpan<float> array, CallSite at) override {
    const std::span<float> data = host_span(array);
    const std::size_t offset = group_.meet(data, at);
    const SliceBounds mine = slice_of(offset, data.size(), group_.rank(), group_.size());
    sum_into_all(group_.arrays(), mine.begin, mine.end);
    group_.part();
  }

  std::size_t sent_bytes(std::size_t count) const override {
    const auto n = static_cast<std::size_t>(ranks());
    return (n - 1) * count * sizeof(float) / n;  // its slice, to each other rank
  }

  std::vector<int> missing_ranks() const override { return group_.missing_ranks(); }

 private:
  SharedGroup group_;
};

}  // namespace

SharedBarrier::SharedBarrier(std::vector<Arrivals*> ranks, int own_rank)
    : ranks_(std::move(ranks)),
      own_rank_(static_cast<std::size_t>(own_rank)),
      spins_(patience(ranks_.size())) {}

void SharedBarrier::arrive_and_wait() {
  ++arrivals_;
  ranks_[own_rank_]->count.store(arrivals_, std::memory_order_release);
  waited_for_.store(arrivals_, std::memory_order_relaxed);
  Backoff backoff(spins_);
  for (const Arrivals* rank : ranks_) {
    while (rank->count.load(std::memory_order_acquire) < arrivals_) backoff.pause();
  }
  waited_for_.store(0, std::memory_order_relaxed);
}

std::vector<int> SharedBarrier::missing_ranks() const {
  std::vector<int> missing;
  const std::uint64_t expected = waited_for_.load(std::memory_order_relaxed);
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank]->count.load(std::memory_order_relaxed) < expected)
      missing.push_back(static_cast<int>(rank));
  }
  return missing;
}

SharedGroup::SharedGroup(const Communicator& group, SharedStorage& storage)
    : group_(group.collective_clone()),
      records_(group, sizeof(RankRecord)),
      storage_(storage.mine()),
      rank_(group.rank()),
      barrier_(all_arrivals(), group.rank()) {
  const int own = storage.rank();
  for (const int member : group.all_gather(std::span(&own, 1))) arrays_.push_back(storage.of(member).data());
}

SharedGroup::RankRecord* SharedGroup::record(int rank) const {
  return std::launder(reinterpret_cast<RankRecord*>(records_.of(rank).data()));
}

std::vector<Arrivals*> SharedGroup::all_arrivals() const {
  std::vector<Arrivals*> all;
  for (int rank = 0; rank < records_.ranks(); ++rank) all.push_back(&record(rank)->arrivals);
  return all;
}

std::size_t SharedGroup::locate(std::span<float> data) const {
  if (data.empty()) return 0;
  require(std::less_equal<>()(storage_.data(), data.data()) &&
              std::less_equal<>()(data.data() + data.size(), storage_.data() + storage_.size()),
          "shared-memory all-reduce of ", data.size(), " values that do not lie in the shared storage");
  return static_cast<std::size_t>(data.data() - storage_.data());
}

std::size_t SharedGroup::meet(std::span<float> data, const CallSite& at) {
  const std::size_t offset = locate(data);
  CollectiveLog& log = NativeHandle::log(group_);
  log.begin("all-reduce in shared memory", type_word<float>(), std::ssize(data), at);
  const WaitingScope waiting(log);
  RankRecord& mine = *record(rank_);
  mine.arrivals.note = {offset, data.size()};
  if (collective_checks()) mine.call = last_call(log);
  barrier_.arrive_and_wait();
  if (collective_checks()) check_calls();
  check_notes();
  return offset;
}

void SharedGroup::part() {
  const WaitingScope waiting(NativeHandle::log(group_));
  barrier_.arrive_and_wait();
}

void SharedGroup::check_calls() const {
  std::vector<RankCall> calls;
  for (int rank = 0; rank < size(); ++rank) calls.push_back(record(rank)->call);
  require_match(calls);
}

// A note is not written again before all have arrived at the second barrier.
void SharedGroup::check_notes() const {
  const Arrivals::Note& own = record(rank_)->arrivals.note;
  for (int rank = 0; rank < size(); ++rank) {
    const Arrivals::Note& other = record(rank)->arrivals.note;
    require(other[note_offset] == own[note_offset] && other[note_count] == own[note_count],
            "shared-memory all-reduce: rank ", rank_, " sums ", own[note_count], " values from ",
            own[note_offset], ", rank ", rank, " ", other[note_count], " from ", other[note_offset]);
  }
}

std::unique_ptr<Collectives> make_shared_memory_all_reduce(const Communicator& group,
                                                           SharedStorage& storage) {
  return std::make_unique<SharedMemoryAllReduce>(group, storage);
}

}  // namespace flotilla::mpi
