// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/collective_checks.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <ranges>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t max_named = 8;

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

HashedHistory::HashedHistory(const CollectiveHistory& history)
    : communicator(history.communicator),
      begun(history.begun),
      first(history.first),
      thread(history.thread),
      waiting(history.waiting) {
  std::ranges::transform(history.calls, hashes.begin(), hash_of);
}

std::vector<NumberedCall> find_mismatch(const RankHistories& all) {
  std::map<std::pair<std::uint64_t, std::int64_t>, std::map<std::uint64_t, int>>
      callers;  // of each call, one
  for (const auto& [history, ranks] : all)
    for (std::int64_t number = history.first; number <= history.begun; ++number)
      callers[{history.communicator, number}].try_emplace(history.hash(number), ranks.front());
  std::vector<NumberedCall> different;
  for (const auto& [at, ranks] : callers)
    if (different.empty() && ranks.size() > 1)
      for (const auto& [hash, rank] : ranks | std::views::take(max_named))
        different.push_back({rank, at.first, at.second});
  return different;
}

std::vector<RankCall> calls_of(const RankHistories& all, std::span<const NumberedCall> known) {
  const std::uint64_t communicator = known.front().communicator;
  const std::int64_t number = known.front().number;
  std::map<std::uint64_t, CollectiveCall> texts;
  for (const NumberedCall& each : known) texts[hash_of(each.call)] = each.call;
  std::vector<RankCall> calls;
  for (const auto& [history, ranks] : all) {
    if (history.communicator != communicator || number < history.first || number > history.begun) continue;
    const auto found = texts.find(history.hash(number));
    if (found == texts.end()) continue;
    for (const int rank : ranks) calls.push_back({rank, found->second});
  }
  std::ranges::sort(calls, {}, &RankCall::rank);
  return calls;
}

std::vector<NumberedCall> find_deadlock(const RankHistories& all) {
  std::map<std::pair<int, std::int32_t>, HashedHistory> waiting;  // by rank and thread
  for (const auto& [history, ranks] : all)
    if (history.waiting != 0)
      for (const int rank : ranks) waiting[{rank, history.thread}] = history;
  // By call: the calls that its ranks wait for, because a rank is in them that has not begun the first.
  std::map<HashedHistory, std::map<HashedHistory, int>> waits_for;
  for (const auto& [call, callers] : all)
    for (const auto& [other, ranks] : all)
      if (call.waiting != 0 && other.communicator == call.communicator && other.begun < call.begun)
        for (const int rank : ranks)
          if (const auto found = waiting.find({rank, other.thread}); found != waiting.end())
            waits_for[call].try_emplace(found->second, rank);
  do {
    for (auto& [call, next] : waits_for)
      std::erase_if(next, [&](const auto& each) { return !waits_for.contains(each.first); });
  } while (std::erase_if(waits_for, [](const auto& each) { return each.second.empty(); }) > 0);
  std::vector<NumberedCall> path;
  if (waits_for.empty()) return path;
  for (auto at = waits_for.begin()->second.begin();; at = waits_for.at(at->first).begin()) {
    const NumberedCall here{at->second, at->first.communicator, at->first.begun};
    const auto seen = std::ranges::find(path, here);
    if (seen != path.end()) {
      path.erase(path.begin(), seen);
      std::ranges::rotate(path, std::ranges::min_element(path, {}, &NumberedCall::rank));
      return path;
    }
    path.push_back(here);
  }
}

std::string text_of_deadlock(std::span<const NumberedCall> calls, std::span<const std::string> names) {
  std::string text = "deadlock of collective calls";
  for (std::size_t i = 0; i < std::min(calls.size(), max_named); ++i)
    text += cat(i == 0 ? ": " : "; ", names[static_cast<std::size_t>(calls[i].rank)], " in ",
                calls[i].call.text());
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
