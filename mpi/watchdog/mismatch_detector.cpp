// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/mismatch_detector.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <optional>

#include "mpi/core/clock.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

SmallMessages::~SmallMessages() {
  static std::mutex mutex;
  static auto& under_way = *new std::vector<std::deque<Sent>>;  // outlives MPI, which may still read it
  const std::lock_guard lock(mutex);
  if (!sent_.empty()) under_way.push_back(std::move(sent_));
}

void SmallMessages::send_bytes(std::span<const std::byte> bytes, int to, int tag) {
  ++sent_to_[to];
  Sent& message = sent_.emplace_back(Sent{.content = {bytes.begin(), bytes.end()}});
  check(MPI_Isend(message.content.data(), static_cast<int>(bytes.size()), MPI_BYTE, to, tag,
                  NativeHandle::of(ranks_), &message.request),
        "MPI_Isend");
}

/// @returns the sender; −1: no message is there
int SmallMessages::receive_bytes(std::span<std::byte> bytes, int tag) {
  int there = 0;
  MPI_Status status;
  const MPI_Comm comm = NativeHandle::of(ranks_);
  check(MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &there, &status), "MPI_Iprobe");
  if (there == 0) return -1;
  const int from = status.MPI_SOURCE;
  check(MPI_Recv(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, from, tag, comm, MPI_STATUS_IGNORE),
        "MPI_Recv");
  ++received_;
  return from;
}

void SmallMessages::receive_rest() {
  const MPI_Comm comm = NativeHandle::of(ranks_);
  std::int64_t expected = 0;
  std::vector<std::int64_t> sent(static_cast<std::size_t>(ranks_.size()));
  for (const auto& [rank, count] : sent_to_) sent[static_cast<std::size_t>(rank)] = count;
  check(MPI_Reduce_scatter_block(sent.data(), &expected, 1, MPI_INT64_T, MPI_SUM, comm),
        "MPI_Reduce_scatter_block");
  std::vector<std::byte> unread(largest);
  for (; received_ < expected; ++received_)
    check(MPI_Recv(unread.data(), static_cast<int>(largest), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG, comm,
                   MPI_STATUS_IGNORE),
          "MPI_Recv");
  for (Sent& message : sent_) check(MPI_Wait(&message.request, MPI_STATUS_IGNORE), "MPI_Wait");
  sent_.clear();
}

void SmallMessages::release_sent() {
  while (!sent_.empty() && completed(sent_.front().request)) sent_.pop_front();
}

namespace {

constexpr int mismatch_request_tag = 5;
constexpr int question_tag = 6;
constexpr int answer_tag = 7;
constexpr int hashes_tag = 11;
constexpr double waited_long_s = 1.0;
constexpr double patience_s = 1.0;  // several periods of the watchdogs
constexpr double between_requests_s = 0.5;
/// Seconds per rank between two rounds, so that a thousand ranks that wait often cost rank 0 little.
constexpr double per_rank_s = 0.004;

struct CallQuestion {
  std::int64_t round = 0;
  std::int64_t calls = 0;  ///< 1: for the calls; 0: for the hashes of the subtree
};

/// One of a rank's histories.
struct CallAnswer {
  std::int64_t round = 0;
  std::int64_t following = 0;  ///< Histories of that rank that are still to come in this round
  CollectiveHistory history{};
};

/// Histories of a subtree.
struct HashAnswer {
  struct Item {
    std::int64_t rank = 0;
    HashedHistory history{};
  };
  std::int64_t round = 0;
  std::int64_t following = 0;  ///< Whether more are to come in this round
  std::int64_t count = 0;      ///< Histories in this message
  std::array<Item, 32> items{};
};

/// Communicators without calls tell nothing.
std::vector<HashedHistory> own_hashes() {
  std::vector<HashedHistory> all;
  for (const auto& [communicator, begun, first, thread, waiting, calls] : CollectiveLog::all()) {
    if (begun == 0) continue;
    all.push_back({static_cast<std::int64_t>(communicator), begun, first, thread, waiting});
    std::ranges::transform(calls, all.back().begin() + 5, [](const CollectiveCall& call) {
      return static_cast<std::int64_t>(hash_of(call));
    });
  }
  return all;
}

/// Histories whose calls differ where the hashes do.
std::vector<CollectiveHistory> histories_of(const std::vector<HashedHistory>& all) {
  std::vector<CollectiveHistory> histories;
  for (const HashedHistory& hashed : all) {
    histories.push_back({static_cast<std::uint64_t>(hashed[0]), hashed[1], hashed[2],
                         static_cast<std::int32_t>(hashed[3]), static_cast<std::int32_t>(hashed[4])});
    std::transform(hashed.begin() + 5, hashed.end(), histories.back().calls.begin(),
                   [](std::int64_t hash) { return CollectiveCall{.line = hash}; });
  }
  return histories;
}

}  // namespace

MismatchDetector::MismatchDetector(SmallMessages& messages, const Communicator& ranks,
                                   std::function<std::vector<std::string>()> names)
    : messages_(messages), ranks_(ranks), tree_(ranks.rank(), ranks.size()), names_(std::move(names)) {}

/// Whether this rank has waited for so long that it requests a round, and it is time to.
bool MismatchDetector::has_waited(double now_s, double quiet_s) {
  const auto before = std::exchange(waits_, {});
  const auto asks_after = [&](double waited_s) {
    return waited_s >= waited_long_s && now_s - waited_s_ >= std::max(waited_long_s, waited_s / 2.0);
  };
  bool asks = asks_after(quiet_s);
  for (const auto& [communicator, number] : CollectiveLog::waiting()) {
    const auto known = before.find(communicator);
    const bool same = known != before.end() && known->second.first == number;
    const double since_s = same ? known->second.second : now_s;
    waits_[communicator] = {number, since_s};
    asks = asks || asks_after(now_s - since_s);
  }
  if (asks) waited_s_ = now_s;
  return asks;
}

void MismatchDetector::poll(double quiet_s) {
  if (ranks_.size() == 1 || !finding_.empty()) return;
  const double now_s = mpi::now_s();
  requested_ = has_waited(now_s, quiet_s) || requested_;
  while (messages_.receive<std::byte>(mismatch_request_tag)) requested_ = true;
  while (const auto question = messages_.receive<CallQuestion>(question_tag)) {
    const auto& [round, calls] = question->second;
    if (calls == 0) begin_round(round, now_s);
    const auto all = calls == 0 ? std::vector<CollectiveHistory>() : CollectiveLog::all();
    auto following = std::ssize(all);
    for (const CollectiveHistory& history : all)
      messages_.send(CallAnswer{round, --following, history}, 0, answer_tag);
  }
  if (requested_ && hashes_.empty() && calls_.empty() && now_s >= next_s_) {
    if (ranks_.is_root()) {
      begin_round(round_ + 1, now_s);
    } else {
      requested_ = false;
      next_s_ = now_s + between_requests_s;
      messages_.send(std::byte{}, tree_.parent, mismatch_request_tag);
    }
  }
  take_answers();
  const bool late = now_s - asked_s_ > (ranks_.is_root() ? 2.0 : 1.0) * patience_s;
  if ((!hashes_.empty() || !calls_.empty()) && (pending_.empty() || late)) conclude(now_s);
}

void MismatchDetector::begin_round(std::int64_t round, double now_s) {
  round_ = round;
  requested_ = false;
  asked_s_ = now_s;
  hashes_ = {{ranks_.rank(), own_hashes()}};
  pending_ = {tree_.children.begin(), tree_.children.end()};
  for (const int child : tree_.children) messages_.send(CallQuestion{round, 0}, child, question_tag);
}

void MismatchDetector::ask_for_calls(double now_s) {
  asked_s_ = now_s;
  ++round_;
  calls_.assign(static_cast<std::size_t>(ranks_.size()), std::nullopt);
  calls_.front() = CollectiveLog::all();
  for (int rank = 1; rank < ranks_.size(); ++rank) {
    pending_.insert(rank);
    messages_.send(CallQuestion{round_, 1}, rank, question_tag);
  }
}

void MismatchDetector::take_answers() {
  while (const auto message = messages_.receive<CallAnswer>(answer_tag)) {
    const auto& [from, answer] = *message;
    if (calls_.empty() || answer.round != round_) continue;
    auto& histories = calls_[static_cast<std::size_t>(from)];
    if (!histories) histories.emplace();
    histories->push_back(answer.history);
    if (answer.following == 0) pending_.erase(from);
  }
  while (const auto message = messages_.receive<HashAnswer>(hashes_tag)) {
    const auto& [from, answer] = *message;
    if (hashes_.empty() || answer.round != round_) continue;
    for (const auto& [rank, history] : std::span(answer.items).first(static_cast<std::size_t>(answer.count)))
      hashes_[static_cast<int>(rank)].push_back(history);
    if (answer.following == 0) pending_.erase(from);
  }
}

/// @param classes one of the ranks that have the same histories, by these
void MismatchDetector::send_hashes(const std::map<std::vector<HashedHistory>, int>& classes) {
  HashAnswer answer{.round = round_, .following = 1};
  const auto send = [&] {
    messages_.send(
        answer, tree_.parent, hashes_tag,
        offsetof(HashAnswer, items) + static_cast<std::size_t>(answer.count) * sizeof(HashAnswer::Item));
    answer.count = 0;
  };
  for (const auto& [histories, rank] : classes)
    for (const HashedHistory& history : histories) {
      if (answer.count == std::ssize(answer.items)) send();
      answer.items[static_cast<std::size_t>(answer.count++)] = {rank, history};
    }
  answer.following = 0;
  send();
}

/// A deadlock counts where two rounds in succession found it: each of its ranks was in its call from its
/// first answer to its second, so all of them were at the moment between the rounds.
void MismatchDetector::conclude(double now_s) {
  pending_.clear();
  if (!hashes_.empty()) {
    std::map<std::vector<HashedHistory>, int> classes;
    for (auto& [rank, histories] : std::exchange(hashes_, {})) classes.try_emplace(histories, rank);
    if (!ranks_.is_root()) return send_hashes(classes);
    next_s_ = now_s + std::max(1.0, per_rank_s * ranks_.size());
    RankHistories ranks;
    for (const auto& [histories, rank] : classes) ranks.emplace_back(histories_of(histories));
    if (!find_mismatch(ranks, {}).empty() || !find_deadlock(ranks).empty()) ask_for_calls(now_s);
    return;
  }
  const RankHistories calls = std::exchange(calls_, {});
  finding_ = find_mismatch(calls, names_());
  if (!finding_.empty()) return;
  const std::vector<WaitingRank> deadlock = find_deadlock(calls);
  if (!deadlock.empty() && deadlock == deadlock_) {
    finding_ = text_of_deadlock(deadlock, calls, names_());
  } else if (deadlock_ = deadlock; !deadlock_.empty()) {
    ask_for_calls(now_s);
  }
}

}  // namespace flotilla::mpi
