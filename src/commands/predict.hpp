// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/commands/prediction_text.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct PredictArguments {
  std::string checkpoint;           ///< A file, or a folder: its newest good checkpoint
  std::vector<std::string> inputs;  ///< Images, folders or a list of them; a file of arrays or of click data
  std::string deck;                 ///< Empty: the one in the checkpoint
  std::vector<std::string> overrides;
  std::string output;  ///< File for the predictions; empty: stdout
  PredictionFormat format = PredictionFormat::csv;
  std::int64_t top = 0;  ///< Classes told of each sample; 0: one, of click data all
  bool all = false;      ///< All classes
};

/// Collective. `flotilla predict`: the classes of unlabelled samples and their probabilities, in the order of
/// the input. Validation's preprocessing; batches do not depend on the number of ranks.
int predict(const PredictArguments& arguments, const mpi::Communicator& world, FailureHandler& failure);

}  // namespace flotilla
