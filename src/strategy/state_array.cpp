// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/state_array.hpp"

#include <algorithm>

#include "kernels/host_staging.hpp"

namespace flotilla {

std::vector<StateArray> state_arrays(const Model& model, Optimizer* optimizer) {
  std::vector<StateArray> arrays = {{"parameters", StateArray::Layout::parameters, model.parameters},
                                    {"statistics", StateArray::Layout::statistics, model.statistics}};
  if (optimizer != nullptr)
    for (const OptimizerSlot& slot : optimizer->slots())
      arrays.push_back({"optimizer/" + slot.name, StateArray::Layout::parameters, slot.values});
  return arrays;
}

void broadcast(Device& device, const mpi::Communicator& workers, std::span<const StateArray> arrays) {
  if (workers.size() == 1) return;
  std::size_t largest = 0;
  for (const StateArray& array : arrays) largest = std::max(largest, array.values.size());
  HostStaging staging(device, largest);
  for (const StateArray& array : arrays) {
    workers.broadcast(staging.map(array.values));
    staging.unmap(array.values);
  }
}

}  // namespace flotilla
