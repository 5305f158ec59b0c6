// SPDX-License-Identifier: Apache-2.0
#include "src/train/model_state.hpp"

#include <algorithm>
#include <map>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// The places of a file's tensors, by path.
std::map<std::string, std::size_t> places_in(const ValueSource& file) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) places.emplace(file.tensors()[i].path, i);
  return places;
}

/// The places of a group's tensors, in the order of the file.
std::vector<std::size_t> places_of_group(const ValueSource& file, const std::string& group) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < file.tensors().size(); ++i)
    if (file.tensors()[i].path.starts_with(group + "/")) places.push_back(i);
  return places;
}

/// Behind `head` the first of some texts, and how many more there are; nothing if there are none.
std::string listed(const char* head, const std::vector<std::string>& texts) {
  constexpr std::size_t most = 4;
  std::string text;
  for (std::size_t i = 0; i < std::min(texts.size(), most); ++i) text += (i == 0 ? head : ", ") + texts[i];
  return texts.size() > most ? cat(text, " and ", texts.size() - most, " more (see the log)") : text;
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
  const char* const what = network.output_loss() ? "outputs" : "classes";
  throw UserError(cat("'", path, "' holds a model of ", there[0], " ", what, " (parameters/", bias.name,
                      "), model.", what, " is ", bias.shape[0], "; set model.", what,
                      ", or start a training from it with model.initial_weights"));
}

}  // namespace

std::vector<StateGroup> state_groups(const Network& network, std::span<const StateArray> arrays) {
  std::vector<StateGroup> groups;
  for (const StateArray& array : arrays) {
    const bool statistics = array.layout == StateArray::Layout::statistics;
    const TensorSet& tensors = statistics ? network.statistics() : network.parameters();
    groups.push_back({array.group, array.tensors == nullptr ? tensors : *array.tensors, array.values});
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

LoadedWeights load_matching(ValueSource& weights, const std::string& path, const Network& network,
                            const Model& model, WeightNames names) {
  const bool by_order = names == WeightNames::order;
  std::map<std::string, std::size_t> not_needed = places_in(weights);
  LoadedWeights loaded;
  std::vector<std::string> left;
  std::vector<std::string> missing;
  std::size_t count = 0;
  std::size_t all = 0;
  for (const StateGroup& group : state_groups(network, state_arrays(model, nullptr))) {
    const std::vector<Slice>& slices = group.tensors.layout().slices();
    const std::vector<std::size_t> in_order = places_of_group(weights, group.name);
    if (by_order && in_order.size() != slices.size())
      throw UserError(cat("'", path, "' has ", in_order.size(), " tensors in /", group.name, ", the model ",
                          slices.size(), ": model.weight_names = \"order\" needs as many"));
    for (std::size_t i = 0; i < slices.size(); ++i, ++all) {
      const Slice& slice = slices[i];
      const std::string name = by_order ? weights.tensors()[in_order[i]].path : group.name + "/" + slice.name;
      const auto found = not_needed.find(name);
      if (found == not_needed.end()) {
        missing.push_back(slice.name);
        loaded.details.push_back(cat("missing        ", slice.name));
        continue;
      }
      const std::string here = by_order ? cat(slice.name, " from ", name) : slice.name;
      const CheckpointTensor& tensor = weights.tensors()[found->second];
      if (tensor.shape == slice.shape) {
        group.tensors.import_slice(network.device().memory(), i, weights.values(found->second), group.values);
        loaded.details.push_back(cat("loaded         ", here));
        ++count;
      } else {
        const std::string shapes = cat(tensor.shape.text(), " in the file, ", slice.shape.text());
        left.push_back(cat(here, " ", shapes, " here"));
        loaded.details.push_back(cat("shape differs  ", here, ": ", shapes, " in the model"));
      }
      not_needed.erase(found);
    }
  }
  if (count == 0)
    throw UserError(
        cat("'", path, "': no tensor has ", by_order ? "the shape" : "a name and shape",
            " of this model (flotilla inspect lists them)",
            by_order ? "" : "; with other names the order may serve: model.weight_names = \"order\""));
  std::vector<std::string> others;
  for (const auto& [name, place] : not_needed) {
    others.push_back(name);
    loaded.details.push_back(cat("not needed     ", name));
  }
  loaded.summary = cat("loaded ", count, " of ", all, " tensors from ", path, listed("; left: ", left),
                       listed("; not in the file: ", missing), listed("; not needed: ", others));
  return loaded;
}

}  // namespace flotilla
