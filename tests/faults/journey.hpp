// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/faults/fault.hpp"
#include "tests/faults/ways.hpp"
#include "tests/runs/program.hpp"

namespace flotilla::test {

/// What became of a fault.
struct Outcome {
  Fault fault;
  bool happened = false;
  int exit_code = -1;
  double gone_s = -1.0;  ///< From the harm until no process of the run was left; −1: not to be measured
  std::int64_t reported = 0;  ///< The newest checkpoint that had been reported and not been spoilt
  std::int64_t resumed = -1;  ///< Where the next run went on; −1: not known yet
  std::string said{};         ///< The first line of Flotilla that tells why the run ended
  std::string spoilt{};       ///< What was done to the newest checkpoint afterwards
  std::vector<std::string> wrong{};
};

/// One run that is disturbed again and again, and goes on each time.
class Journey {
 public:
  struct Place {
    std::string output;     ///< The run's folder, empty or not there yet
    std::string temporary;  ///< TMPDIR of the run: nothing may stay there
    std::string disk{};     ///< A small disk on which the output lies; empty: a large one
  };
  Journey(const Way& way, int ranks, Place place, std::uint64_t seed);

  /// Starts the run, harms it, waits until it is gone, and looks at what is left.
  void suffer(const Fault& fault);
  /// Damages the newest checkpoint, where there is another one.
  void spoil_newest();
  /// Lets the run end, and compares it with one that was left alone.
  void finish(const std::string& reference_folder);

  const std::vector<Outcome>& outcomes() const { return outcomes_; }
  const std::vector<std::string>& wrong() const { return wrong_; }  ///< Of no single fault

 private:
  Texts command(const Texts& more, const std::string& call) const;
  bool wait_for(const Program& program, Moment moment) const;
  void strike(Program& program, const Fault& fault, std::map<int, pid_t>& ranks);
  void wait_until_gone(Program& program, std::map<int, pid_t> ranks, double begin_s, Outcome& outcome);
  void note_resumption(const Result& result);
  void examine(Outcome& outcome);
  void look_for_files(Outcome& outcome) const;
  std::map<std::int64_t, std::string> checkpoints() const;
  bool is_good(const std::string& checkpoint) const;
  void complain(const std::string& what);

  Way way_;
  int ranks_;
  Place place_;
  std::mt19937_64 random_;
  std::vector<Outcome> outcomes_;
  std::vector<std::string> wrong_;
  std::set<std::string> spoilt_;  ///< Checkpoints that were damaged, and not written again since
  std::int64_t at_least_ = 0;     ///< Where the next run must go on, or later
  std::string spoilt_file_{};     ///< It must say that it passed this one over; empty: nothing
};

/// Flips a bit of a file, or cuts it off, or removes it. @returns what it did.
std::string damage(const std::string& file, std::mt19937_64& random);

}  // namespace flotilla::test
