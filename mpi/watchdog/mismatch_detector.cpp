// SPDX-License-Identifier: Apache-2.0
#include "mpi/watchdog/mismatch_detector.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <mutex>

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
  std::int64_t number = 0;  ///< Of the call; 0: for the hashes of the subtree
  std::uint64_t communicator = 0;
  std::int64_t place = 0;  ///< The answer brings it back
};

struct CallAnswer {
  std::int64_t round = 0;
  std::int64_t place = 0;
  CollectiveCall call{};
};

/// Histories of a subtree: of each its bytes, and ranks that have it, led by their count.
struct HashAnswer {
  std::int64_t round = 0;
  std::int32_t following = 0;  ///< Whether more is to come in this round
  std::int32_t count = 0;      ///< Numbers in this message
  std::array<std::int32_t, 990> numbers{};
};
using HistoryNumbers = std::array<std::int32_t, sizeof(HashedHistory) / sizeof(std::int32_t)>;

/// This rank's call; an empty one where it has forgotten it.
CollectiveCall own_call(std::uint64_t communicator, std::int64_t number) {
  for (const CollectiveHistory& history : CollectiveLog::all())
    if (history.communicator == communicator && history.first <= number && number <= history.begun)
      return history.call(number);
  return {};
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
    const auto& [round, number, communicator, place] = question->second;
    if (number == 0)
      begin_round(round, now_s);
    else
      messages_.send(CallAnswer{round, place, own_call(communicator, number)}, 0, answer_tag);
  }
  if (requested_ && histories_.empty() && now_s >= next_s_) {
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
  if (!histories_.empty() && (pending_.empty() || late)) conclude(now_s);
}

void MismatchDetector::begin_round(std::int64_t round, double now_s) {
  round_ = round;
  requested_ = false;
  asked_s_ = now_s;
  histories_.clear();
  for (const CollectiveHistory& history : CollectiveLog::all())
    if (history.begun > 0) histories_[HashedHistory(history)] = {ranks_.rank()};
  pending_ = {tree_.children.begin(), tree_.children.end()};
  for (const int child : tree_.children)
    messages_.send(CallQuestion{round}, child, question_tag, sizeof(round));
}

void MismatchDetector::ask_for_calls(double now_s) {
  asked_s_ = now_s;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    auto& [rank, communicator, number, call] = asked_[i];
    if (rank == 0) {
      call = own_call(communicator, number);
      continue;
    }
    const auto place = static_cast<std::int64_t>(i);
    pending_.insert(static_cast<int>(place));
    messages_.send(CallQuestion{round_, number, communicator, place}, rank, question_tag);
  }
}

void MismatchDetector::take_answers() {
  while (const auto message = messages_.receive<CallAnswer>(answer_tag)) {
    const auto& [round, place, call] = message->second;
    if (asked_.empty() || round != round_) continue;
    asked_[static_cast<std::size_t>(place)].call = call;
    pending_.erase(static_cast<int>(place));
  }
  while (const auto message = messages_.receive<HashAnswer>(hashes_tag)) {
    const auto& [from, answer] = *message;
    if (histories_.empty() || !asked_.empty() || answer.round != round_) continue;
    HistoryNumbers history{};
    for (auto left = std::span(answer.numbers).first(static_cast<std::size_t>(answer.count));
         !left.empty();) {
      std::ranges::copy(left.first(history.size()), history.begin());
      const auto more = left.subspan(history.size() + 1, static_cast<std::size_t>(left[history.size()]));
      std::vector<int>& ranks = histories_[std::bit_cast<HashedHistory>(history)];
      ranks.insert(ranks.end(), more.begin(), more.end());
      left = left.subspan(history.size() + 1 + more.size());
    }
    if (answer.following == 0) pending_.erase(from);
  }
}

void MismatchDetector::send_hashes() {
  HashAnswer answer{.round = round_, .following = 1};
  std::size_t used = 0;
  const auto append = [&](std::span<const std::int32_t> numbers) {
    std::ranges::copy(numbers, answer.numbers.begin() + static_cast<std::ptrdiff_t>(used));
    used += numbers.size();
  };
  const auto send = [&] {
    answer.count = static_cast<std::int32_t>(std::exchange(used, 0));
    messages_.send(
        answer, tree_.parent, hashes_tag,
        offsetof(HashAnswer, numbers) + static_cast<std::size_t>(answer.count) * sizeof(std::int32_t));
  };
  constexpr std::size_t led_by = std::tuple_size_v<HistoryNumbers> + 1;
  for (const auto& [history, ranks] : std::exchange(histories_, {}))
    for (auto left = std::span(ranks); !left.empty();) {
      if (used + led_by >= answer.numbers.size()) send();
      const auto part = left.first(std::min(left.size(), answer.numbers.size() - used - led_by));
      left = left.subspan(part.size());
      append(std::bit_cast<HistoryNumbers>(history));
      append(std::array{static_cast<std::int32_t>(part.size())});
      append(part);
    }
  answer.following = 0;
  send();
}

/// A deadlock counts where two rounds in succession found it: each of its ranks was in its call from its
/// first answer to its second, so all of them were at the moment between the rounds.
void MismatchDetector::conclude(double now_s) {
  const bool complete = std::exchange(pending_, {}).empty();
  if (!ranks_.is_root()) return send_hashes();
  if (asked_.empty()) {
    next_s_ = now_s + std::max(1.0, per_rank_s * ranks_.size());
    for (auto& [history, ranks] : histories_) std::ranges::sort(ranks);
    const std::vector<NumberedCall> before = std::exchange(deadlock_, {});
    asked_ = find_mismatch(histories_);
    if (asked_.empty()) deadlock_ = find_deadlock(histories_);
    if (deadlock_ != before && !deadlock_.empty()) return begin_round(round_ + 1, now_s);
    if (asked_.empty()) asked_ = deadlock_;
    if (!asked_.empty()) return ask_for_calls(now_s);
  } else if (complete) {
    finding_ = deadlock_.empty() ? text_of_mismatch(calls_of(histories_, asked_), names_())
                                 : text_of_deadlock(asked_, names_());
  }
  asked_.clear();
  histories_.clear();
}

}  // namespace flotilla::mpi
