// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "models/network.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/train/optimizer.hpp"
#include "src/train/strategy.hpp"

namespace flotilla {

/// The tensors of a checkpoint of `network`: parameters, statistics, and `optimizer`'s slots unless it is
/// null.
std::vector<CheckpointTensor> checkpoint_tensors(const Network& network, Optimizer* optimizer);

/// Copies the model and the optimizer's slots into the snapshot as they are stored: all that training waits
/// for. The snapshot's tensors and memory are made at the first call; `snapshot.state` is the caller's.
void copy_state(const Network& network, const Model& model, Optimizer& optimizer, Snapshot& snapshot);

/// Turns what copy_state left into plain tensors, in place. Uses the network's plans only to convert: may run
/// beside training.
void make_plain(const Network& network, Snapshot& snapshot);

/// The way back. @throws UserError if the snapshot's tensors are not those of the network; `path` is for its
/// text.
void restore(const Snapshot& snapshot, const std::string& path, const Network& network, const Model& model,
             Optimizer* optimizer);

/// Copies the tensors whose name and shape agree. Returns the lines of a table: loaded, missing, shape
/// differs, not needed.
/// @throws UserError if nothing matched.
std::vector<std::string> load_matching(const Snapshot& weights, const std::string& path,
                                       const Network& network, const Model& model);

}  // namespace flotilla
