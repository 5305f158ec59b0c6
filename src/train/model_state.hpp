// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/train/state_array.hpp"

namespace flotilla {

/// The tensors that one flat array holds, and the group they have in a checkpoint.
struct StateGroup {
  std::string name;  ///< "parameters"
  const TensorSet& tensors;
  DeviceSpan<float> values;
};

std::vector<StateGroup> state_groups(const Network& network, std::span<const StateArray> arrays);

/// The tensors of `arrays`, which a checkpoint of `network` holds.
std::vector<CheckpointTensor> checkpoint_tensors(const Network& network, std::span<const StateArray> arrays);

/// Puts the values of a checkpoint into the arrays. Without the optimizer's slots in `arrays` the snapshot
/// may hold more than them.
/// @throws UserError if the snapshot's tensors are not those of the network; `path` is for its text.
void restore(const Snapshot& snapshot, const std::string& path, const Network& network,
             std::span<const StateArray> arrays);

/// Copies the tensors whose name and shape agree. Returns the lines of a table: loaded, missing, shape
/// differs, not needed.
/// @throws UserError if nothing matched.
std::vector<std::string> load_matching(const Snapshot& weights, const std::string& path,
                                       const Network& network, const Model& model);

}  // namespace flotilla
