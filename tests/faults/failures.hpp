// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/ways.hpp"

namespace flotilla::test {

/// A call of one rank that is let fail (fail_at_call.cpp).
struct FailingCall {
  int rank = 0;
  std::string word{};  ///< "open", "memory", "message", …
  int number = 0;      ///< Number among the rank's calls of this word; 0: the first one on `about`
  std::string
      place{};  ///< A hash of its callers: the first call from there fails, whatever its number; empty: any
  std::string site{};   ///< Address of the innermost caller in the program, for addr2line -e flotilla
  std::string about{};  ///< What it was about: a path, a size, a function
  std::string error{};  ///< Error of a call on a file: "EIO", "ESTALE", "ENOSPC", "short"; empty: EIO

  std::string text() const;  ///< "rank 1: open 7 ESTALE"
  /// "1 open 7 ESTALE", as fail_at_call.cpp reads it.
  std::string plan() const;
};

/// The line of Flotilla that reports such a failure, of an error rather than a warning; empty: none.
std::string line_about(const FailingCall& call, const std::string& errors);

/// The step from which a run says that it resumes; −1: it does not say so. @param output its stdout
std::int64_t first_step(const std::string& output);

/// The end of a run with a failing call.
struct Attempt {
  bool fired = false;   ///< The call came, and failed
  std::string about{};  ///< What it was about this time
  int exit_code = -1;
  double seconds = 0.0;
  std::string said{};    ///< The line that reports it; empty: there is none
  std::string errors{};  ///< All of stderr
  std::string wrong{};   ///< Empty: all as it should be
};

/// Small trainings of a strategy, in which calls fail.
class FailureSweep {
 public:
  /// What a run begins with: nothing, or a checkpoint.
  enum class Phase { start, resume };

  /// @param folder for the runs, empty
  FailureSweep(Way way, std::string folder);

  /// Every call of these ranks in a run in which none fails, the first of each place only, in order.
  std::vector<FailingCall> calls(Phase phase, const std::vector<int>& ranks) const;
  /// Makes the call fail, waits until all ranks are gone, and then checks whether the next run resumes.
  Attempt fail(Phase phase, const FailingCall& call) const;

 private:
  std::string begin(Phase phase, const std::string& name) const;
  Texts arguments(const std::string& output, int steps) const;
  std::string next_run(const std::string& output) const;

  Way way_;
  int ranks_;
  std::string folder_;
};

}  // namespace flotilla::test
