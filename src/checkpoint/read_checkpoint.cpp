// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/value_reader.hpp"

namespace flotilla {

namespace {

UserError damaged(const FileIndex& index, const std::string& what) {
  if (!index.has_state)
    return UserError(cat("the weights in '", index.path, "' cannot be read: ", what,
                         "; /parameters and /statistics hold floating-point numbers and nothing else"));
  return UserError(cat("checkpoint '", index.path, "' is damaged: ", what, "; use an older one"));
}

bool is_weight(const StoredTensor& tensor) {
  return tensor.path.starts_with("parameters/") || tensor.path.starts_with("statistics/");
}

/// Reads and verifies. Of the state of optimizer and strategy it keeps nothing if `weights_only`.
Snapshot load(const FileIndex& index, bool weights_only) {
  if (const std::string problem = index_problem(index); !problem.empty()) throw damaged(index, problem);
  Snapshot snapshot;
  snapshot.state = index.state;
  std::int64_t size = 0;
  for (const StoredTensor& tensor : index.tensors) {
    if (weights_only && !is_weight(tensor)) continue;
    snapshot.tensors.push_back({tensor.path, tensor.shape, size});
    size += tensor.shape.size();
  }
  snapshot.values.resize(static_cast<std::size_t>(size));
  ValueReader reader(index);
  auto slot = snapshot.tensors.begin();
  for (const StoredTensor& tensor : index.tensors) {
    const bool skipped = weights_only && !is_weight(tensor);
    const std::uint64_t found = skipped ? reader.checksum(tensor) : reader.read(tensor, snapshot.of(*slot++));
    if (tensor.checksum && *tensor.checksum != found)
      throw damaged(index, cat("the values of /", tensor.path,
                               " are not those that were written (the checksum differs)"));
  }
  return snapshot;
}

/// @throws UserError naming the first tensor with a NaN or an infinity: no model with one is of any use.
void check_finite(const Snapshot& snapshot, const std::string& path) {
  for (const CheckpointTensor& tensor : snapshot.tensors) {
    const std::span<const float> values = snapshot.of(tensor);
    const auto bad = std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (bad == values.end()) continue;
    const auto count = std::ranges::count_if(values, [](float value) { return !std::isfinite(value); });
    throw UserError(cat("'", path, "' has ", *bad, " in /", tensor.path, " (value ", bad - values.begin(),
                        " and ", count - 1, " more of ", values.size(),
                        "): its model diverged; use an older checkpoint or other weights"));
  }
}

}  // namespace

std::span<float> Snapshot::of(const CheckpointTensor& tensor) {
  return std::span(values).subspan(static_cast<std::size_t>(tensor.offset),
                                   static_cast<std::size_t>(tensor.shape.size()));
}

std::span<const float> Snapshot::of(const CheckpointTensor& tensor) const {
  return std::span(values).subspan(static_cast<std::size_t>(tensor.offset),
                                   static_cast<std::size_t>(tensor.shape.size()));
}

Snapshot read_checkpoint(const std::string& path) {
  const FileIndex index = hdf5::read_index(path);
  if (!index.has_state)
    throw UserError(cat("'", path,
                        "' has no training state (no attribute schema): it is not a checkpoint; weights ",
                        "go into model.initial_weights"));
  return load(index, false);
}

Snapshot read_weights(const std::string& path) {
  const FileIndex index = hdf5::read_index(path);
  Snapshot snapshot = load(index, true);
  const bool any =
      std::any_of(snapshot.tensors.begin(), snapshot.tensors.end(),
                  [](const CheckpointTensor& tensor) { return tensor.path.starts_with("parameters/"); });
  if (!any)
    throw UserError(cat(
        "'", path, "' has no datasets in /parameters: weights are looked for there, under the names that ",
        "flotilla inspect shows for a checkpoint of the model"));
  check_finite(snapshot, path);
  return snapshot;
}

void check_tensors(const Snapshot& snapshot, std::span<const CheckpointTensor> expected,
                   const std::string& path) {
  const char* remedy = "; use the deck that made the file, or another file";
  std::map<std::string, Shape> found;
  for (const CheckpointTensor& tensor : snapshot.tensors) found.emplace(tensor.path, tensor.shape);
  for (const CheckpointTensor& tensor : expected) {
    const auto at = found.find(tensor.path);
    if (at == found.end())
      throw UserError(cat("'", path, "' has no tensor ", tensor.path, " (", tensor.shape.text(),
                          "), which the model needs", remedy));
    if (at->second != tensor.shape)
      throw UserError(cat("'", path, "' has ", tensor.path, " of shape ", at->second.text(),
                          ", the model needs ", tensor.shape.text(), remedy));
    found.erase(at);
  }
  if (!found.empty())
    throw UserError(cat("'", path, "' has a tensor ", found.begin()->first, " (",
                        found.begin()->second.text(), "), which the model does not know", remedy));
}

}  // namespace flotilla
