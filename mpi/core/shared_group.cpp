// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/shared_group.hpp"

#include <functional>
#include <new>

#include "kernels/error.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

enum NoteField : std::size_t { note_offset, note_count };

}  // namespace

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

}  // namespace flotilla::mpi
