// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/fault.hpp"
#include "tests/faults/soak_case.hpp"
#include "tests/faults/soak_run.hpp"
#include "tests/runs/program.hpp"

namespace flotilla::test {

/// What became of a fault.
struct Outcome {
  Fault fault;
  bool happened = false;
  int exit_code = -1;
  double gone_s = -1.0;       ///< Time from the harm until no process of the run was left
  std::int64_t reported = 0;  ///< The newest checkpoint that had been reported and not been damaged
  std::int64_t resumed = -1;  ///< Step at which the next run resumed; −1: not known yet
  std::string said{};         ///< The line of Flotilla that tells why the run ended
  std::string damaged{};      ///< What was done to the newest checkpoint afterwards
  std::string bits{};         ///< "equal", "unequal", "not promised"; empty: it did not come so far
  std::vector<std::string> wrong{};

  nlohmann::json json(const SoakCase& one) const;
};

/// One run that is disturbed and resumed.
class FaultedRun {
 public:
  FaultedRun(const SoakCase& one, SoakPlace place, const References& references);

  /// Brings the faults of the case, lets the run end, and compares it with one that was left alone.
  const std::vector<Outcome>& execute();

 private:
  void run_with(const Fault& fault);
  void damage_newest();
  void finish();
  bool wait_for(const Program& program, Moment moment) const;
  void inject(Program& program, const Fault& fault, std::map<int, pid_t>& ranks);
  void inject_second(Program& program, const Fault& fault, std::map<int, pid_t>& ranks);
  pid_t process_of(int rank, const Program& program, std::map<int, pid_t>& ranks) const;
  void wait_until_gone(Program& program, std::map<int, pid_t> ranks, double begin_s, Outcome& outcome);
  void check_end_of(Outcome& outcome, const Result& result) const;
  void note_resumption(const Result& result);
  void examine(Outcome& outcome);
  void look_for_files(Outcome& outcome) const;
  std::vector<std::string> shared_memories() const;
  std::map<std::int64_t, std::string> checkpoints() const;
  bool is_good(const std::string& checkpoint) const;
  bool is_kept_state(const std::filesystem::directory_entry& entry) const;
  std::int64_t step_in_memory() const;
  void note_wrong(const std::string& what);

  SoakCase case_;
  SoakPlace place_;
  const References& references_;
  std::mt19937_64 random_;
  std::vector<Outcome> outcomes_;
  std::set<std::string> damaged_;  ///< Checkpoints that were damaged, and not written again since
  std::int64_t at_least_ = 0;      ///< Step at which the next run must resume, or later
  std::int64_t in_memory_ = -1;    ///< Step of a state that hosts keep, to resume at if later; -1: none
  std::string newest_damaged_{};   ///< It must say that it passed this one over; empty: nothing
};

/// What a run with this fault did wrong, by how it ended; empty: nothing. @param fired the fault came about
std::string check_end(const Fault& fault, bool fired, const Result& result, double gone_s, int watchdog_s);

/// Flips a bit of a file, or cuts it off, or empties it, or removes it where `may_remove`.
/// @returns what it did
std::string damage(const std::string& file, bool may_remove, std::mt19937_64& random);

}  // namespace flotilla::test
