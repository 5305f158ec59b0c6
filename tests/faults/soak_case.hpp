// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/faults/fault.hpp"
#include "tests/faults/ways.hpp"

namespace flotilla::test {

/// A run and what happens to it, all of it drawn from one seed.
struct SoakCase {
  std::uint64_t seed = 0;
  Way way;
  int ranks = 2;
  int hosts = 1;
  std::string save;         ///< "every 20 steps", "best", "one kept", "each rank"
  bool resumes = false;     ///< It begins from checkpoints that a run made which was left alone
  bool small_disk = false;  ///< It has a small disk of its own, which can be filled
  /// The second is a fault of the run that resumes after the first.
  std::vector<Fault> faults;
  bool damages_newest =
      false;  ///< After the first fault the newest checkpoint is damaged, or a part of it removed

  Texts arguments() const;   ///< Deck and keys, but for run.output, run.watchdog_s and the end
  std::string name() const;  ///< Name of all that affects its model's bits: way, ranks, hosts
  int watchdog_s() const { return hosts > 1 ? 8 : 4; }  ///< For runs with a fault
  int rank_that_saves() const { return way.servers > 0 ? 1 : 0; }
};

/// @param max_hosts 1 where this machine can have no others
SoakCase draw_case(std::uint64_t seed, const std::vector<Way>& ways, int max_hosts);

}  // namespace flotilla::test
