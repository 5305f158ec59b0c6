// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_state.hpp"

#include <algorithm>
#include <map>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// The tensors that one flat array holds, and the group they have in a checkpoint.
struct Group {
  std::string prefix;  ///< "parameters/"
  const TensorSet& tensors;
  DeviceSpan<float> values;

  const ArenaLayout& layout() const { return tensors.layout(); }
};

std::vector<Group> groups_of(const Network& network, std::span<const StateArray> arrays) {
  std::vector<Group> groups;
  for (const StateArray& array : arrays) {
    const bool statistics = array.layout == StateArray::Layout::statistics;
    groups.push_back(
        {array.group + "/", statistics ? network.statistics() : network.parameters(), array.values});
  }
  return groups;
}

/// Calls visit(group, slice, tensor) for every tensor of checkpoint_tensors, in their order.
template <class Tensors, class Visit>
void for_each_tensor(const std::vector<Group>& groups, Tensors& tensors, Visit visit) {
  std::size_t next = 0;
  for (const Group& group : groups)
    for (std::size_t slice = 0; slice < group.layout().slices().size(); ++slice)
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
  for (const Group& group : groups_of(network, arrays)) {
    for (const Slice& slice : group.layout().slices()) {
      tensors.push_back({.path = group.prefix + slice.name, .shape = slice.shape, .offset = offset});
      offset += slice.shape.size();
    }
  }
  return tensors;
}

void copy_state(const Network& network, std::span<const StateArray> arrays, Snapshot& snapshot) {
  const std::vector<Group> groups = groups_of(network, arrays);
  if (snapshot.tensors.empty()) {
    snapshot.tensors = checkpoint_tensors(network, arrays);
    std::size_t next = 0;
    std::int64_t first = 0;
    for (const Group& group : groups) {
      for (const Slice& slice : group.layout().slices())
        snapshot.tensors[next++].offset = first + slice.offset;
      first += group.layout().size();
    }
    snapshot.values.resize(static_cast<std::size_t>(first));
  }
  std::size_t first = 0;
  for (const Group& group : groups) {
    network.device().download(group.values, std::span(snapshot.values).subspan(first, group.values.size()));
    first += group.values.size();
  }
}

void make_plain(const Network& network, Snapshot& snapshot) {
  std::vector<float> stored;
  std::size_t slice = 0;
  for (const CheckpointTensor& tensor : snapshot.tensors) {
    const TensorSet& tensors =
        tensor.path.starts_with("statistics/") ? network.statistics() : network.parameters();
    if (!tensors.is_plain(slice)) {
      const float* first = snapshot.values.data() + tensor.offset;
      stored.assign(first, first + tensors.layout()[slice].size);
      tensors.to_plain(slice, stored, snapshot.of(tensor));
    }
    slice = (slice + 1) % tensors.layout().slices().size();
  }
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
  for_each_tensor(groups_of(network, arrays), expected,
                  [&](const Group& group, std::size_t slice, const CheckpointTensor& tensor) {
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
  for (const Group& group : groups_of(network, state_arrays(model, nullptr))) {
    for (std::size_t i = 0; i < group.layout().slices().size(); ++i) {
      const Slice& slice = group.layout()[i];
      const auto found = given.find(group.prefix + slice.name);
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
