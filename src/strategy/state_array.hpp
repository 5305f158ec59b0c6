// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "models/arena.hpp"
#include "mpi/core/communicator.hpp"
#include "src/optim/optimizer.hpp"

namespace flotilla {

/// One model, laid out as a network's arenas.
struct Model {
  DeviceSpan<float> parameters;
  DeviceSpan<float> statistics;
};

/// A flat array and its group in a checkpoint.
struct StateArray {
  enum class Layout { parameters, statistics };
  std::string group;  ///< "parameters", "statistics", "optimizer/momentum", "strategy/outer_momentum"
  Layout layout = Layout::parameters;
  DeviceSpan<float> values;
  /// Null: the network's. Arrays with others need not be in a checkpoint
  const TensorSet* tensors = nullptr;
};

/// The arrays of the model, and the optimizer's slots unless it is null.
std::vector<StateArray> state_arrays(const Model& model, Optimizer* optimizer);

/// Collective. Every worker's arrays ← worker 0's.
void broadcast(Device& device, const mpi::Communicator& workers, std::span<const StateArray> arrays);

}  // namespace flotilla
