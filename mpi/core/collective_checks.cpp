// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/collective_checks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t max_named = 8;

struct Member {
  int rank = 0;
  const CollectiveHistory* history = nullptr;
};
using Members = std::map<std::uint64_t, std::vector<Member>>;

/// The members of each communicator.
Members members_of(const RankHistories& ranks) {
  Members members;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank]) continue;
    for (const CollectiveHistory& history : *ranks[rank])
      members[history.communicator].push_back({static_cast<int>(rank), &history});
  }
  return members;
}

/// The ranks of `calls` that made this one.
std::string callers(const CollectiveCall& call, std::span<const RankCall> calls,
                    std::span<const std::string> names) {
  std::string text;
  std::size_t found = 0;
  for (const RankCall& other : calls) {
    if (other.call != call || ++found > max_named) continue;
    const auto rank = static_cast<std::size_t>(other.rank);
    text += (text.empty() ? "" : ", ") + (names.empty() ? cat("rank ", rank) : names[rank]);
  }
  return found > max_named ? cat(text, " and ", found - max_named, " more") : text;
}

std::string mismatch_on(const std::vector<Member>& members, std::span<const std::string> names) {
  std::map<std::int64_t, std::vector<RankCall>> by_number;
  for (const auto& [rank, history] : members)
    for (std::int64_t number = history->first; number <= history->begun; ++number)
      by_number[number].push_back({rank, history->call(number)});
  for (const auto& [number, calls] : by_number)
    if (std::string text = text_of_mismatch(calls, names); !text.empty()) return text;
  return {};
}

/// A thread that is in a call, and which others it waits for.
struct Waiting {
  Member who;
  std::vector<std::size_t> waits_for{};
  bool for_ever = true;
};

std::vector<Waiting> find_waiting(const Members& members) {
  std::vector<Waiting> all;
  std::map<std::pair<int, std::int32_t>, std::size_t> by_thread;
  for (const auto& [communicator, group] : members)
    for (const Member& member : group)
      if (member.history->waiting != 0) {
        by_thread[{member.rank, member.history->thread}] = all.size();
        all.push_back({member});
      }
  for (Waiting& waiting : all) {
    const CollectiveHistory& own = *waiting.who.history;
    for (const auto& [rank, history] : members.at(own.communicator)) {
      if (history->begun >= own.begun) continue;
      const auto caller = by_thread.find({rank, history->thread});
      if (caller != by_thread.end()) waiting.waits_for.push_back(caller->second);
    }
  }
  return all;
}

/// Keeps the ranks that wait forever, because they wait for a rank that waits forever.
void drop_those_that_go_on(std::vector<Waiting>& all) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Waiting& waiting : all) {
      const bool stays =
          std::ranges::any_of(waiting.waits_for, [&](std::size_t i) { return all[i].for_ever; });
      if (!waiting.for_ever || stays) continue;
      waiting.for_ever = false;
      changed = true;
    }
  }
}

constexpr std::chrono::seconds patience_with_first_rank{10};

CollectiveLog& begin(const Communicator& group, const char* kind, const char* type, std::int64_t count,
                     const CallSite& at) {
  CollectiveLog& log = NativeHandle::log(group);
  log.begin(kind, type, count, at);
  return log;
}

static_assert(std::is_trivially_copyable_v<RankCall>, "travels as bytes");

}  // namespace

// FNV-1a (Fowler, Noll and Vo), 64 bits.
std::uint64_t hash_of(const CollectiveCall& call) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : std::as_bytes(std::span(&call, 1)))
    hash = (hash ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3U;
  return hash;
}

std::string text_of_mismatch(std::span<const RankCall> calls, std::span<const std::string> names) {
  std::vector<CollectiveCall> different;
  for (const RankCall& call : calls)
    if (std::ranges::find(different, call.call) == different.end()) different.push_back(call.call);
  if (different.size() < 2) return {};
  std::string text = "mismatched collective calls";
  for (std::size_t i = 0; i < std::min(different.size(), max_named); ++i)
    text += cat(i == 0 ? ": " : "; ", callers(different[i], calls, names), " in ", different[i].text());
  return text;
}

std::string find_mismatch(const RankHistories& ranks, std::span<const std::string> names) {
  for (const auto& [communicator, members] : members_of(ranks))
    if (std::string text = mismatch_on(members, names); !text.empty()) return text;
  return {};
}

std::vector<WaitingRank> find_deadlock(const RankHistories& ranks) {
  const Members members = members_of(ranks);
  std::vector<Waiting> all = find_waiting(members);
  drop_those_that_go_on(all);
  const auto first = std::ranges::find(all, true, &Waiting::for_ever);
  std::vector<std::size_t> path;
  for (auto at = static_cast<std::size_t>(first - all.begin()); at < all.size();) {
    if (const auto seen = std::ranges::find(path, at); seen != path.end()) {
      path.erase(path.begin(), seen);
      break;
    }
    path.push_back(at);
    at = *std::ranges::find_if(all[at].waits_for, [&](std::size_t i) { return all[i].for_ever; });
  }
  std::vector<WaitingRank> cycle;
  for (const std::size_t at : path)
    cycle.push_back({all[at].who.rank, all[at].who.history->communicator, all[at].who.history->begun});
  return cycle;
}

std::string text_of_deadlock(const std::vector<WaitingRank>& deadlock, const RankHistories& ranks,
                             std::span<const std::string> names) {
  std::string text = "deadlock of collective calls";
  for (std::size_t i = 0; i < std::min(deadlock.size(), max_named); ++i) {
    const auto rank = static_cast<std::size_t>(deadlock[i].rank);
    const auto history =
        std::ranges::find(*ranks[rank], deadlock[i].communicator, &CollectiveHistory::communicator);
    text += cat(i == 0 ? ": " : "; ", names[rank], " in ", history->call(deadlock[i].number).text());
  }
  return text;
}

CollectiveScope::CollectiveScope(const Communicator& group, const char* kind, const char* type,
                                 std::int64_t count, const CallSite& at)
    : waiting_(begin(group, kind, type, count, at)) {
  if (!collective_checks() || group.size() == 1) return;
  const CollectiveCall mine = NativeHandle::log(group).last();
  // The largest, and the complement of the smallest.
  std::array largest{hash_of(mine), ~hash_of(mine)};
  const MPI_Comm comm = NativeHandle::of(group);
  check(MPI_Allreduce(MPI_IN_PLACE, largest.data(), 2, MPI_UINT64_T, MPI_MAX, comm), "MPI_Allreduce",
        at.where);
  if (largest[0] == ~largest[1]) return;
  const RankCall own = last_call(NativeHandle::log(group));
  std::vector<RankCall> all(static_cast<std::size_t>(group.size()));
  check(MPI_Allgather(&own, sizeof(own), MPI_BYTE, all.data(), sizeof(own), MPI_BYTE, comm), "MPI_Allgather",
        at.where);
  require_match(all);
}

RankCall last_call(const CollectiveLog& log) {
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  return {rank, log.last()};
}

void require_match(std::span<const RankCall> calls) {
  if (std::ranges::adjacent_find(calls, std::ranges::not_equal_to(), &RankCall::call) == calls.end()) return;
  int rank = 0;
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  if (rank != calls.front().rank) std::this_thread::sleep_for(patience_with_first_rank);
  throw InternalError(text_of_mismatch(calls));
}

}  // namespace flotilla::mpi
