// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace flotilla::test {

using Texts = std::vector<std::string>;

/// A strategy that faults are tried on.
struct Way {
  std::string name;
  Texts arguments;         ///< Deck and keys
  std::vector<int> ranks;  ///< One of these
  int servers = 0;     ///< Servers among the ranks; 0: rank 0 is worker 0, which saves; otherwise rank 1 is
  bool parts = false;  ///< Other workers write files of checkpoints too
  bool exact = true;   ///< Interrupted runs end with equal bits
  bool one_host = false;  ///< Runs on one host only
};

/// @param clicks a file of `flotilla make-data criteo`
std::vector<Way> all_ways(const std::string& clicks);

}  // namespace flotilla::test
