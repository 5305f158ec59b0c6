// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mpi/core/collective_mismatch.hpp"
#include "mpi/watchdog/small_messages.hpp"

namespace flotilla::mpi {

/// Compares the collective calls of all ranks once one of them has waited for a second: that rank notifies
/// rank 0, which asks all for their histories, at most once a second, and looks for mismatched calls and
/// deadlocks in the answers. The messages are those of the watchdogs' threads; no rank waits for one. Private
/// to mpi/.
class MismatchDetector {
 public:
  /// @param messages whose tags 5, 6 and 7 nothing else uses; must outlive this
  /// @param names of all ranks
  MismatchDetector(SmallMessages& messages, int rank, std::vector<std::string> names);

  /// Sends and receives pending messages. Returns at once. @param quiet_s for which this rank has not moved
  void poll(double quiet_s);
  /// On rank 0: which ranks have called what. Empty: no mismatch and no deadlock is known.
  const std::string& finding() const { return finding_; }

 private:
  bool has_waited(double now_s, double quiet_s);
  void answer_questions();
  void take_requests();
  void take_answers();
  void ask(double now_s);
  void conclude(double now_s);

  SmallMessages& messages_;
  int rank_;
  std::vector<std::string> names_;
  std::map<std::uint64_t, std::pair<std::int64_t, double>> waits_;  ///< By communicator: number, since when
  double requested_s_ = 0;                                          ///< When this rank asked for a round last
  // Of rank 0:
  bool requested_ = false;
  bool asking_ = false;
  std::int64_t round_ = 0;
  double asked_s_ = 0;
  double next_s_ = 0;
  std::vector<std::vector<CollectiveHistory>> incoming_;  ///< By rank
  RankHistories answers_;                                 ///< Those that are complete
  std::vector<WaitingRank> deadlock_;                     ///< Found in the round before
  std::string finding_;
};

}  // namespace flotilla::mpi
