// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "models/network.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/train/state_array.hpp"

namespace flotilla {

/// The tensors of `arrays`, which a checkpoint of `network` holds.
std::vector<CheckpointTensor> checkpoint_tensors(const Network& network, std::span<const StateArray> arrays);

/// Copies the arrays into the snapshot as they are stored: all that training waits for. The snapshot's
/// tensors and memory are made at the first call; `snapshot.state` is the caller's.
void copy_state(const Network& network, std::span<const StateArray> arrays, Snapshot& snapshot);

/// Turns what copy_state left into plain tensors, in place. Uses the network's plans only to convert: may run
/// beside training.
void make_plain(const Network& network, Snapshot& snapshot);

/// The way back. Without the optimizer's slots in `arrays` the snapshot may hold more than them.
/// @throws UserError if the snapshot's tensors are not those of the network; `path` is for its text.
void restore(const Snapshot& snapshot, const std::string& path, const Network& network,
             std::span<const StateArray> arrays);

/// Copies the tensors whose name and shape agree. Returns the lines of a table: loaded, missing, shape
/// differs, not needed.
/// @throws UserError if nothing matched.
std::vector<std::string> load_matching(const Snapshot& weights, const std::string& path,
                                       const Network& network, const Model& model);

}  // namespace flotilla
