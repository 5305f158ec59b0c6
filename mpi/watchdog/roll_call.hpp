// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// What a rank was doing, as it says itself.
struct Presence {
  std::array<char, 64> what{};  ///< "all-reduce of bucket", cut off where it is longer
  std::int64_t step = -1;
  std::int64_t index = -1;  ///< Bucket or batch; −1: none
  double quiet_s = 0.0;     ///< Since it last moved
  std::int64_t ending = 0;  ///< 1: its watchdog ends the job as well
  std::int64_t done = 0;    ///< 1: it has done that, and waits for the others
  std::int64_t files = 0;   ///< 1: it waits for files; quiet_s tells whether they go on

  void set_what(const char* text);
  /// At the same place of the same step.
  bool is_with(const Presence& other) const;
  std::string text() const;  ///< "all-reduce of bucket 2, step 57", "opening the data, done here"
};

/// Lets the watchdogs' threads ask each other how their ranks are, while everything else may hang. Messages
/// of its own; nobody waits for one that does not come. Used by one thread at a time, whose clock it keeps:
/// one that stands still while the process is stopped.
class RollCall {
 public:
  /// Collective. `hosts`: of every rank.
  RollCall(const Communicator& world, std::vector<std::string> hosts);
  RollCall(const RollCall&) = delete;
  RollCall& operator=(const RollCall&) = delete;
  ~RollCall();

  void set_time(double now_s);
  /// Answers those who asked since the last call, and hears those who were called.
  void answer(const Presence& mine);
  /// Asks all other ranks but those that still owe an answer. Returns at once.
  void call(const Presence& mine);
  /// The same, and answers and hears for at most `patience_s`, and for half a second where all answer: their
  /// own watchdogs may be about to ask.
  void ask(const Presence& mine, double patience_s);
  bool silent() const;       ///< After ask(): is there a rank that did not answer?
  void begin_silences();     ///< From now on: as if all had been heard of
  double silence_s() const;  ///< The longest: since a rank was heard of last
  /// After ask(): did a rank answer that waits for files, and they went on in the last `seconds`?
  bool somebody_at_files_within(double seconds) const;
  /// After ask(): did a rank answer that has moved in the last `seconds`?
  bool somebody_moved_within(double seconds) const;
  /// After ask(): did a lower rank answer whose watchdog ends the job too? Then that one speaks.
  bool left_to_another() const;
  /// Mismatched collective calls or a deadlock of them, once a rank has waited for a second; on rank 0, as
  /// far as answer() and ask() have found out. Empty: none.
  const std::string& mismatch() const;
  /// After ask(): "rank 3 on node7 does not answer; the others wait in the same place". `missing`: ranks that
  /// have not arrived at the collective that this one waits in.
  std::string text(const Presence& mine, const std::vector<int>& missing) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace flotilla::mpi
