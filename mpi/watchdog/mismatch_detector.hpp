// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi/core/collective_checks.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/rank_tree.hpp"

namespace flotilla::mpi {

/// Messages of fixed size between ranks, of which no rank waits for one before the end: trivially copyable
/// values below 4 KB, the least that MPI libraries send without waiting for the receiver. One thread at a
/// time. Private to mpi/.
class SmallMessages {
 public:
  static constexpr std::size_t largest = 3999;  ///< bytes
  /// @param ranks must outlive this
  explicit SmallMessages(const Communicator& ranks) : ranks_(ranks) {}
  SmallMessages(const SmallMessages&) = delete;
  SmallMessages& operator=(const SmallMessages&) = delete;
  /// Waits for nothing: the memory of messages that are still under way stays until the process ends.
  ~SmallMessages();

  /// Returns at once. A message to a rank that has ended stays in memory. @param bytes sent of the value
  template <class T>
  void send(const T& value, int to, int tag, std::size_t bytes = sizeof(T)) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= largest);
    send_bytes(std::as_bytes(std::span(&value, 1)).first(bytes), to, tag);
  }
  /// The next message of that tag, if one has come: its sender and content.
  template <class T>
  std::optional<std::pair<int, T>> receive(int tag) {
    T value{};
    const int from = receive_bytes(std::as_writable_bytes(std::span(&value, 1)), tag);
    return from < 0 ? std::nullopt : std::optional(std::pair(from, value));
  }
  /// Frees the memory of messages that were sent, and lets MPI progress the others.
  void release_sent();
  /// Collective, when no rank sends any more. Receives what is still under way: MPI may give the next
  /// communicator the context of this one, where a message left behind would arrive.
  void receive_rest();

 private:
  struct Sent {
    std::vector<std::byte> content;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void send_bytes(std::span<const std::byte> bytes, int to, int tag);
  int receive_bytes(std::span<std::byte> bytes, int tag);

  const Communicator& ranks_;
  std::deque<Sent> sent_;
  std::map<int, std::int64_t> sent_to_;  ///< Messages by rank
  std::int64_t received_ = 0;
};

/// Compares the collective calls of all ranks once one of them has waited for a second: that rank requests
/// it, again when it has waited for twice as long, and so on. Requests go to rank 0 along a tree
/// (rank_tree.hpp), and rank 0 asks all along it for the hashes of their calls, at most once a second: a rank
/// answers for its subtree, with each history once, and without ranks that are silent and those below them.
/// Only where rank 0 finds mismatched calls or a deadlock, it asks for the text of each of these calls one of
/// the ranks that made it. The messages are those of the watchdogs' threads; no rank waits for one. Private
/// to mpi/.
class MismatchDetector {
 public:
  /// @param messages whose tags 5, 6, 7 and 11 nothing else uses; must outlive this, as `ranks`
  /// @param names of all ranks
  MismatchDetector(SmallMessages& messages, const Communicator& ranks,
                   std::function<std::vector<std::string>()> names);

  /// Sends and receives pending messages. Returns at once. @param quiet_s for which this rank has not moved
  void poll(double quiet_s);
  /// On rank 0: a sentence that says which ranks have called what. Empty: no mismatch and no deadlock is
  /// known.
  const std::string& finding() const { return finding_; }

 private:
  bool has_waited(double now_s, double quiet_s);
  void begin_round(std::int64_t round, double now_s);
  void ask_for_calls(double now_s);
  void take_answers();
  void conclude(double now_s);
  void send_hashes();

  SmallMessages& messages_;
  const Communicator& ranks_;
  RankTree tree_;
  std::function<std::vector<std::string>()> names_;
  std::map<std::uint64_t, std::pair<std::int64_t, double>> waits_;  ///< By communicator: number, since when
  double waited_s_ = 0;                                             ///< When this rank requested a round last
  double next_s_ = 0;  ///< Before then no request is passed on, and no round begun
  bool requested_ = false;
  std::int64_t round_ = 0;
  double asked_s_ = 0;
  std::set<int> pending_;               ///< Ranks without an answer; places in `asked_` of calls without
  RankHistories histories_;             ///< Of the subtree, in a round
  std::vector<NumberedCall> asked_;     ///< On rank 0: the calls whose text it has asked for
  std::vector<NumberedCall> deadlock_;  ///< Found in this round, or in the one before
  std::string finding_;
};

}  // namespace flotilla::mpi
