// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

struct EvaluateArguments {
  std::string checkpoint;  ///< A file, or a folder: its newest good checkpoint
  std::string deck;        ///< Empty: the one in the checkpoint
  std::vector<std::string> overrides;
  std::string vectors;  ///< HDF5 file for the outputs of every sample; empty: none
  bool per_class = false;
  bool confusion = false;
  bool json = false;
  std::string output;  ///< File for the JSON; empty: stdout, instead of the report
};

/// Collective. `flotilla evaluate`: loss and accuracies on data.validation, each sample counted once. The
/// training data is not opened.
int evaluate_checkpoint(const EvaluateArguments& arguments, const mpi::Communicator& world,
                        FailureHandler& failure);

}  // namespace flotilla
