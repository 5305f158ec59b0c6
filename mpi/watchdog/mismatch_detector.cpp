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
  ++sent_to_[static_cast<std::size_t>(to)];
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
  check(MPI_Reduce_scatter_block(sent_to_.data(), &expected, 1, MPI_INT64_T, MPI_SUM, comm),
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
constexpr double patience_s = 1.0;
/// Seconds per rank between two rounds, so that a thousand ranks that wait often cost rank 0 little.
constexpr double per_rank_s = 0.004;

struct CallQuestion {
  std::int64_t round = 0;
  std::int64_t calls = 0;  ///< 1: for the calls; 0: for their hashes
};

/// One of a rank's histories.
struct CallAnswer {
  std::int64_t round = 0;
  std::int64_t following = 0;  ///< Histories of that rank that are still to come in this round
  CollectiveHistory history{};
};

/// Some of a rank's histories, with hashes in the place of calls.
struct HashAnswer {
  struct History {
    std::uint64_t communicator = 0;
    std::int64_t begun = 0;
    std::int64_t first = 1;
    std::int32_t thread = -1;
    std::int32_t waiting = 0;
    std::array<std::int64_t, CollectiveHistory::kept> hashes{};
  };
  std::int64_t round = 0;
  std::int64_t following = 0;  ///< Histories of that rank that are still to come in this round
  std::int64_t count = 0;      ///< Histories in this message
  std::array<History, 8> histories{};
};

HashAnswer::History hashed(const CollectiveHistory& history) {
  HashAnswer::History hashed{history.communicator, history.begun, history.first, history.thread,
                             history.waiting};
  std::ranges::transform(history.calls, hashed.hashes.begin(),
                         [](const CollectiveCall& call) { return static_cast<std::int64_t>(hash_of(call)); });
  return hashed;
}

/// A history whose calls differ where the hashes do.
CollectiveHistory history_of(const HashAnswer::History& hashed) {
  CollectiveHistory history{hashed.communicator, hashed.begun, hashed.first, hashed.thread, hashed.waiting};
  std::ranges::transform(hashed.hashes, history.calls.begin(),
                         [](std::int64_t hash) { return CollectiveCall{.line = hash}; });
  return history;
}

}  // namespace

MismatchDetector::MismatchDetector(SmallMessages& messages, int rank, std::vector<std::string> names)
    : messages_(messages),
      rank_(rank),
      names_(std::move(names)),
      incoming_(names_.size()),
      answers_(names_.size()) {}

/// Whether this rank has waited for so long that it asks for a round, and it is time to.
bool MismatchDetector::has_waited(double now_s, double quiet_s) {
  const auto before = std::exchange(waits_, {});
  const auto asks_after = [&](double waited_s) {
    return waited_s >= waited_long_s && now_s - requested_s_ >= std::max(waited_long_s, waited_s / 2.0);
  };
  bool asks = asks_after(quiet_s);
  for (const auto& [communicator, number] : CollectiveLog::waiting()) {
    const auto known = before.find(communicator);
    const bool same = known != before.end() && known->second.first == number;
    const double since_s = same ? known->second.second : now_s;
    waits_[communicator] = {number, since_s};
    asks = asks || asks_after(now_s - since_s);
  }
  return asks;
}

void MismatchDetector::poll(double quiet_s) {
  if (names_.size() == 1 || !finding_.empty()) return;
  const double now_s = mpi::now_s();
  const bool waits = has_waited(now_s, quiet_s);
  if (waits) requested_s_ = now_s;
  if (rank_ != 0) {
    if (waits) messages_.send(std::byte{}, 0, mismatch_request_tag);
    return answer_questions();
  }
  requested_ = requested_ || waits;
  take_requests();
  if (requested_ && !asking_ && now_s >= next_s_) ask(now_s, false);
  take_answers();
  const bool all = std::ranges::all_of(answers_, [](const auto& answer) { return answer.has_value(); });
  if (asking_ && (all || now_s - asked_s_ > patience_s)) conclude(now_s);
}

void MismatchDetector::take_requests() {
  while (messages_.receive<std::byte>(mismatch_request_tag)) requested_ = true;
}

/// Begins a round.
void MismatchDetector::ask(double now_s, bool calls) {
  asked_for_calls_ = calls;
  requested_ = false;
  asking_ = true;
  asked_s_ = now_s;
  ++round_;
  std::ranges::fill(incoming_, std::vector<CollectiveHistory>());
  std::ranges::fill(answers_, std::nullopt);
  answers_.front() = CollectiveLog::all();
  if (!calls)
    for (CollectiveHistory& history : *answers_.front()) history = history_of(hashed(history));
  for (std::size_t rank = 1; rank < names_.size(); ++rank)
    messages_.send(CallQuestion{round_, calls ? 1 : 0}, static_cast<int>(rank), question_tag);
}

void MismatchDetector::answer_questions() {
  while (const auto question = messages_.receive<CallQuestion>(question_tag)) {
    const auto& [round, calls] = question->second;
    const std::vector<CollectiveHistory> all = CollectiveLog::all();
    auto following = static_cast<std::int64_t>(all.size());
    HashAnswer hashes{.round = round};
    for (const CollectiveHistory& history : all) {
      --following;
      if (calls != 0) {
        messages_.send(CallAnswer{round, following, history}, 0, answer_tag);
        continue;
      }
      hashes.histories[static_cast<std::size_t>(hashes.count++)] = hashed(history);
      if (following > 0 && hashes.count < std::ssize(hashes.histories)) continue;
      hashes.following = following;
      messages_.send(hashes, 0, hashes_tag);
      hashes.count = 0;
    }
  }
}

void MismatchDetector::take_answers() {
  const auto take = [&](int from, const auto& answer, auto add) {
    if (!asking_ || answer.round != round_) return;
    const auto rank = static_cast<std::size_t>(from);
    add(incoming_[rank]);
    if (answer.following == 0) answers_[rank] = std::exchange(incoming_[rank], {});
  };
  while (const auto message = messages_.receive<CallAnswer>(answer_tag))
    take(message->first, message->second, [&](auto& all) { all.push_back(message->second.history); });
  while (const auto message = messages_.receive<HashAnswer>(hashes_tag))
    take(message->first, message->second, [&](auto& all) {
      for (std::int64_t i = 0; i < message->second.count; ++i)
        all.push_back(history_of(message->second.histories[static_cast<std::size_t>(i)]));
    });
}

/// A deadlock counts where two rounds in succession found it: each of its ranks was in its call from its
/// first answer to its second, so all of them were at the moment between the rounds.
void MismatchDetector::conclude(double now_s) {
  asking_ = false;
  next_s_ = now_s + std::max(1.0, per_rank_s * static_cast<double>(names_.size()));
  if (!asked_for_calls_) {
    if (!find_mismatch(answers_, names_).empty() || !find_deadlock(answers_).empty()) ask(now_s, true);
    return;
  }
  finding_ = find_mismatch(answers_, names_);
  if (!finding_.empty()) return;
  const std::vector<WaitingRank> deadlock = find_deadlock(answers_);
  if (!deadlock.empty() && deadlock == deadlock_) {
    finding_ = text_of_deadlock(deadlock, answers_, names_);
  } else if (deadlock_ = deadlock; !deadlock_.empty()) {
    ask(now_s, true);
  }
}

}  // namespace flotilla::mpi
