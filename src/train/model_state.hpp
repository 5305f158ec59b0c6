// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/value_source.hpp"
#include "src/strategy/state_array.hpp"

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

/// Puts the values of a file into the arrays; groups that are not among them are left alone.
/// @throws UserError if the tensors of a group are not those of the network; `path` is for its text.
void restore(ValueSource& file, const std::string& path, const Network& network,
             std::span<const StateArray> arrays);

/// Whether a file has tensors of a group: "parameters", "optimizer/momentum".
bool has_group(const ValueSource& file, const std::string& group);

/// Copies the tensors whose name and shape agree. Returns the lines of a table: loaded, missing, shape
/// differs, not needed.
/// @throws UserError if nothing matched.
std::vector<std::string> load_matching(ValueSource& weights, const std::string& path, const Network& network,
                                       const Model& model);

}  // namespace flotilla
