// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_state.hpp"

#include <algorithm>
#include <map>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr const char* parameter_group = "parameters/";

/// Calls visit(array, slice, tensor) for every tensor of checkpoint_tensors, in their order.
template <class Tensors, class Visit>
void for_each_tensor(const Network& network, Tensors& tensors, const std::vector<DeviceSpan<float>>& arrays,
                     Visit visit) {
  const std::size_t slices = network.layout().slices().size();
  for (std::size_t i = 0; i < tensors.size(); ++i) visit(arrays[i / slices], i % slices, tensors[i]);
}

std::vector<DeviceSpan<float>> arrays_of(DeviceSpan<float> parameters, Optimizer* optimizer) {
  std::vector<DeviceSpan<float>> arrays = {parameters};
  if (optimizer != nullptr)
    for (const OptimizerSlot& slot : optimizer->slots()) arrays.push_back(slot.values);
  return arrays;
}

}  // namespace

std::vector<CheckpointTensor> checkpoint_tensors(const Network& network, Optimizer* optimizer) {
  std::vector<std::string> groups = {parameter_group};
  if (optimizer != nullptr)
    for (const OptimizerSlot& slot : optimizer->slots()) groups.push_back(cat("optimizer/", slot.name, "/"));
  std::vector<CheckpointTensor> tensors;
  std::int64_t offset = 0;
  for (const std::string& group : groups) {
    for (const Slice& slice : network.layout().slices()) {
      tensors.push_back({.path = group + slice.name, .shape = slice.shape, .offset = offset});
      offset += slice.shape.size();
    }
  }
  return tensors;
}

void copy_state(Network& network, DeviceSpan<float> parameters, Optimizer& optimizer, Snapshot& snapshot) {
  const std::vector<DeviceSpan<float>> arrays = arrays_of(parameters, &optimizer);
  const auto arena = static_cast<std::size_t>(network.layout().size());
  if (snapshot.tensors.empty()) {
    snapshot.tensors = checkpoint_tensors(network, &optimizer);
    snapshot.values.resize(arrays.size() * arena);
    for_each_tensor(
        network, snapshot.tensors, arrays,
        [&, i = std::size_t{0}](DeviceSpan<float>, std::size_t slice, CheckpointTensor& tensor) mutable {
          const std::size_t array = i++ / network.layout().slices().size();
          tensor.offset = static_cast<std::int64_t>(array * arena) + network.layout()[slice].offset;
        });
  }
  for (std::size_t i = 0; i < arrays.size(); ++i)
    network.device().download(arrays[i], std::span(snapshot.values).subspan(i * arena, arena));
}

void make_plain(const Network& network, Snapshot& snapshot) {
  const std::size_t slices = network.layout().slices().size();
  std::vector<float> stored;
  for (std::size_t i = 0; i < snapshot.tensors.size(); ++i) {
    const std::size_t slice = i % slices;
    if (network.parameters().is_plain(slice)) continue;
    const float* first = snapshot.values.data() + snapshot.tensors[i].offset;
    stored.assign(first, first + network.layout()[slice].size);
    network.parameters().to_plain(slice, stored, snapshot.of(snapshot.tensors[i]));
  }
}

void restore(const Snapshot& snapshot, const std::string& path, const Network& network,
             DeviceSpan<float> parameters, Optimizer* optimizer) {
  const std::vector<CheckpointTensor> expected = checkpoint_tensors(network, optimizer);
  if (optimizer != nullptr) {
    check_tensors(snapshot, expected, path);
  } else {
    Snapshot weights;  // What an evaluation needs: the optimizer's state may be there or not.
    for (const CheckpointTensor& tensor : snapshot.tensors)
      if (!tensor.path.starts_with("optimizer/")) weights.tensors.push_back(tensor);
    check_tensors(weights, expected, path);
  }
  std::map<std::string, const CheckpointTensor*> saved;
  for (const CheckpointTensor& tensor : snapshot.tensors) saved[tensor.path] = &tensor;
  for_each_tensor(network, expected, arrays_of(parameters, optimizer),
                  [&](DeviceSpan<float> array, std::size_t slice, const CheckpointTensor& tensor) {
                    network.parameters().import_slice(network.device(), slice,
                                                      snapshot.of(*saved.at(tensor.path)), array);
                  });
}

std::vector<std::string> load_matching(const Snapshot& weights, const std::string& path,
                                       const Network& network, DeviceSpan<float> parameters) {
  std::map<std::string, const CheckpointTensor*> given;
  for (const CheckpointTensor& tensor : weights.tensors) given[tensor.path] = &tensor;
  std::vector<std::string> lines;
  bool any = false;
  for (std::size_t i = 0; i < network.layout().slices().size(); ++i) {
    const Slice& slice = network.layout()[i];
    const auto found = given.find(parameter_group + slice.name);
    if (found == given.end()) {
      lines.push_back(cat("missing        ", slice.name));
    } else if (!(found->second->shape == slice.shape)) {
      lines.push_back(cat("shape differs  ", slice.name, ": ", found->second->shape.text(), " in the file, ",
                          slice.shape.text(), " in the model"));
    } else {
      network.parameters().import_slice(network.device(), i, weights.of(*found->second), parameters);
      lines.push_back(cat("loaded         ", slice.name));
      any = true;
    }
  }
  if (!any)
    throw UserError(
        cat(path, ": no tensor has a name and shape of this model (flotilla inspect lists them)"));
  return lines;
}

}  // namespace flotilla
