// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/config/config.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// The tensors of one flat array, and their group in a checkpoint.
struct StateGroup {
  std::string name;  ///< "parameters"
  const TensorSet& tensors;
  DeviceSpan<float> values;
};

std::vector<StateGroup> state_groups(const Network& network, std::span<const StateArray> arrays);

/// The tensors of `arrays`, which a checkpoint of `network` holds.
std::vector<CheckpointTensor> checkpoint_tensors(const Network& network, std::span<const StateArray> arrays);

/// Copies the values of a file into the arrays; other groups of the file are ignored.
/// @throws UserError naming `path`, if the tensors of a group are not those of the network.
void restore(ValueSource& file, const std::string& path, const Network& network,
             std::span<const StateArray> arrays);

/// Whether a file has tensors of a group: "parameters", "optimizer/momentum".
bool has_group(const ValueSource& file, const std::string& group);

/// The result of loading a file of weights.
struct LoadedWeights {
  /// "loaded 100 of 102 tensors from model.h5; left: fc.weight 1000x512 in the file, 4x512 here"; empty:
  /// there was no file
  std::string summary{};
  std::vector<std::string> details{};  ///< A line for each tensor of the model and each one not needed
};

/// Copies the tensors of equal names, or of equal places in their groups, if their shapes are equal.
/// @throws UserError if nothing matched, or by order the numbers of tensors differ.
LoadedWeights load_matching(ValueSource& weights, const std::string& path, const Network& network,
                            const Model& model, WeightNames names);

}  // namespace flotilla
