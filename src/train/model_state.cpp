// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_state.hpp"

#include <algorithm>
#include <map>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Calls visit(group, slice, tensor) for every tensor of checkpoint_tensors, in their order.
template <class Tensors, class Visit>
void for_each_tensor(const std::vector<StateGroup>& groups, Tensors& tensors, Visit visit) {
  std::size_t next = 0;
  for (const StateGroup& group : groups)
    for (std::size_t slice = 0; slice < group.tensors.layout().slices().size(); ++slice)
      visit(group, slice, tensors[next++]);
}

/// The last parameter is the bias of the last layer: one value for each class.
void check_classes(const Snapshot& snapshot, const std::string& path, const Network& network) {
  const Slice& last = network.layout().slices().back();
  for (const CheckpointTensor& tensor : snapshot.tensors)
    if (tensor.path == "parameters/" + last.name && tensor.shape.rank() == 1 && tensor.shape != last.shape)
      throw UserError(cat("'", path, "' holds a model of ", tensor.shape[0], " classes (", tensor.path,
                          "), model.classes is ", last.shape[0],
                          "; set model.classes, or start a training from it with model.initial_weights"));
}

}  // namespace

std::vector<StateGroup> state_groups(const Network& network, std::span<const StateArray> arrays) {
  std::vector<StateGroup> groups;
  for (const StateArray& array : arrays) {
    const bool statistics = array.layout == StateArray::Layout::statistics;
    groups.push_back({array.group, statistics ? network.statistics() : network.parameters(), array.values});
  }
  return groups;
}

std::vector<StateArray> state_arrays(const Model& model, Optimizer* optimizer) {
  std::vector<StateArray> arrays = {{"parameters", StateArray::Layout::parameters, model.parameters},
                                    {"statistics", StateArray::Layout::statistics, model.statistics}};
  if (optimizer != nullptr)
    for (const OptimizerSlot& slot : optimizer->slots())
      arrays.push_back({"optimizer/" + slot.name, StateArray::Layout::parameters, slot.values});
  return arrays;
}

std::vector<CheckpointTensor> checkpoint_tensors(const Network& network, std::span<const StateArray> arrays) {
  std::vector<CheckpointTensor> tensors;
  std::int64_t offset = 0;
  for (const StateGroup& group : state_groups(network, arrays)) {
    for (const Slice& slice : group.tensors.layout().slices()) {
      tensors.push_back({.path = group.name + "/" + slice.name, .shape = slice.shape, .offset = offset});
      offset += slice.shape.size();
    }
  }
  return tensors;
}

void restore(const Snapshot& snapshot, const std::string& path, const Network& network,
             std::span<const StateArray> arrays) {
  const std::vector<CheckpointTensor> expected = checkpoint_tensors(network, arrays);
  const bool slots = std::ranges::any_of(
      arrays, [](const StateArray& array) { return array.group.starts_with("optimizer/"); });
  Snapshot needed;  // What an evaluation needs: the optimizer's state may be there or not.
  for (const CheckpointTensor& tensor : snapshot.tensors)
    if (slots || !tensor.path.starts_with("optimizer/")) needed.tensors.push_back(tensor);
  check_classes(snapshot, path, network);
  check_tensors(needed, expected, path);
  std::map<std::string, const CheckpointTensor*> saved;
  for (const CheckpointTensor& tensor : snapshot.tensors) saved[tensor.path] = &tensor;
  for_each_tensor(state_groups(network, arrays), expected,
                  [&](const StateGroup& group, std::size_t slice, const CheckpointTensor& tensor) {
                    group.tensors.import_slice(network.device(), slice, snapshot.of(*saved.at(tensor.path)),
                                               group.values);
                  });
}

std::vector<std::string> load_matching(const Snapshot& weights, const std::string& path,
                                       const Network& network, const Model& model) {
  std::map<std::string, const CheckpointTensor*> given;
  for (const CheckpointTensor& tensor : weights.tensors) given[tensor.path] = &tensor;
  std::vector<std::string> lines;
  bool any = false;
  for (const StateGroup& group : state_groups(network, state_arrays(model, nullptr))) {
    for (std::size_t i = 0; i < group.tensors.layout().slices().size(); ++i) {
      const Slice& slice = group.tensors.layout()[i];
      const auto found = given.find(group.name + "/" + slice.name);
      if (found == given.end()) {
        lines.push_back(cat("missing        ", slice.name));
        continue;
      }
      const CheckpointTensor& tensor = *found->second;
      if (tensor.shape == slice.shape) {
        group.tensors.import_slice(network.device(), i, weights.of(tensor), group.values);
        lines.push_back(cat("loaded         ", slice.name));
        any = true;
      } else {
        lines.push_back(cat("shape differs  ", slice.name, ": ", tensor.shape.text(), " in the file, ",
                            slice.shape.text(), " in the model"));
      }
      given.erase(found);
    }
  }
  for (const auto& [name, tensor] : given) lines.push_back(cat("not needed     ", name));
  if (!any)
    throw UserError(
        cat(path, ": no tensor has a name and shape of this model (flotilla inspect lists them)"));
  return lines;
}

}  // namespace flotilla
