// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_state.hpp"

#include <algorithm>
#include <map>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Where the tensors of a file are, by path.
std::map<std::string, std::size_t> places_in(const ValueSource& file) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) places.emplace(file.tensors()[i].path, i);
  return places;
}

/// The last parameters are weights and bias of the last layer, with one row and one value for each class: if
/// they alone differ, the number of classes does.
void check_classes(const ValueSource& file, const std::string& path, const Network& network) {
  const std::vector<Slice>& slices = network.layout().slices();
  const auto is_parameter = [](const CheckpointTensor& tensor) {
    return tensor.path.starts_with("parameters/");
  };
  const auto parameters = static_cast<std::size_t>(std::ranges::count_if(file.tensors(), is_parameter));
  if (slices.size() < 2 || parameters != slices.size()) return;
  const std::map<std::string, std::size_t> places = places_in(file);
  const auto found = [&](const Slice& slice) -> const CheckpointTensor* {
    const auto place = places.find("parameters/" + slice.name);
    return place == places.end() ? nullptr : &file.tensors()[place->second];
  };
  const auto fits = [&](const Slice& slice) { return found(slice) && found(slice)->shape == slice.shape; };
  if (!std::ranges::all_of(slices.begin(), slices.end() - 2, fits)) return;
  const Slice& bias = slices.back();
  const Slice& weights = slices[slices.size() - 2];
  if (found(bias) == nullptr || found(weights) == nullptr || fits(bias)) return;
  const Shape& there = found(bias)->shape;
  const Shape& weights_there = found(weights)->shape;
  if (there.rank() != 1 || weights_there.rank() != 2 || weights_there[1] != weights.shape[1]) return;
  throw UserError(cat("'", path, "' holds a model of ", there[0], " classes (parameters/", bias.name,
                      "), model.classes is ", bias.shape[0],
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

bool has_group(const ValueSource& file, const std::string& group) {
  return std::ranges::any_of(
      file.tensors(), [&](const CheckpointTensor& tensor) { return tensor.path.starts_with(group + "/"); });
}

void restore(ValueSource& file, const std::string& path, const Network& network,
             std::span<const StateArray> arrays) {
  check_classes(file, path, network);
  const std::vector<CheckpointTensor> expected = checkpoint_tensors(network, arrays);
  std::vector<CheckpointTensor> found;
  for (const CheckpointTensor& tensor : file.tensors())
    if (std::ranges::any_of(
            arrays, [&](const StateArray& array) { return tensor.path.starts_with(array.group + "/"); }))
      found.push_back(tensor);
  check_tensors(found, expected, path);
  const std::map<std::string, std::size_t> places = places_in(file);
  auto tensor = expected.begin();
  for (const StateGroup& group : state_groups(network, arrays))
    for (std::size_t slice = 0; slice < group.tensors.layout().slices().size(); ++slice, ++tensor)
      group.tensors.import_slice(network.device().memory(), slice, file.values(places.at(tensor->path)),
                                 group.values);
}

std::vector<std::string> load_matching(ValueSource& weights, const std::string& path, const Network& network,
                                       const Model& model) {
  std::map<std::string, std::size_t> given = places_in(weights);
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
      const CheckpointTensor& tensor = weights.tensors()[found->second];
      if (tensor.shape == slice.shape) {
        group.tensors.import_slice(network.device().memory(), i, weights.values(found->second), group.values);
        lines.push_back(cat("loaded         ", slice.name));
        any = true;
      } else {
        lines.push_back(cat("shape differs  ", slice.name, ": ", tensor.shape.text(), " in the file, ",
                            slice.shape.text(), " in the model"));
      }
      given.erase(found);
    }
  }
  for (const auto& [name, place] : given) lines.push_back(cat("not needed     ", name));
  if (!any)
    throw UserError(
        cat(path, ": no tensor has a name and shape of this model (flotilla inspect lists them)"));
  return lines;
}

}  // namespace flotilla
