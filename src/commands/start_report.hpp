// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/commands/start_up.hpp"
#include "src/config/deck.hpp"
#include "src/observe/reporter.hpp"
#include "src/train/resume.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

/// Facts reported at the start of a run, besides its parts.
struct StartFacts {
  const std::string& deck_path;
  const LoadedDeck& deck;
  const StartUp& machines;
  const LoadedCheckpoint* resumed;  ///< Null: a new run
  const StartValues& values;
  const std::optional<Staged>& staged;  ///< Empty: the data stay where they are
  std::vector<std::string> warnings;
  bool keeps_deck;  ///< See RunFolder
};

/// "resumed      from runs/mnist/checkpoints/step-00000400.h5, step 400, epoch 5"
std::string resumed_line(const LoadedCheckpoint& resumed);

/// Collective over the workers. The lines and warnings at the start of a run, and metrics' line "start".
void report_start(const StartFacts& start, RunParts& run, Reporter& reporter);

}  // namespace flotilla
