// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_file.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/hdf5_read.hpp"

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

/// @throws UserError if a value is NaN or infinite: no model with one is of any use.
void check_finite(const std::string& path, const StoredTensor& tensor, std::span<const float> values) {
  const auto finite = [](float value) { return std::isfinite(value); };
  const auto bad = std::ranges::find_if_not(values, finite);
  if (bad == values.end()) return;
  const auto count = std::ranges::count_if(values, std::not_fn(finite));
  throw UserError(cat("'", path, "' has ", *bad, " in /", tensor.path, " (value ", bad - values.begin(),
                      " and ", count - 1, " more of ", values.size(),
                      "): its model diverged; use an older checkpoint or other weights"));
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

CheckpointFile::CheckpointFile(const std::string& path, Content content)
    : index_(hdf5::read_index(path)), content_(content), reader_(index_) {
  const bool has_parameters = std::ranges::any_of(
      index_.tensors, [](const StoredTensor& tensor) { return tensor.path.starts_with("parameters/"); });
  if (!has_parameters && !index_.has_state && index_.problems.empty())
    throw UserError(
        cat("'", path,
            "' is an HDF5 file of arrays, not a checkpoint or a file of weights, which has its weights in "
            "/parameters, under the names that flotilla inspect shows for a checkpoint of the model; "
            "data.kind = \"hdf5\" reads files of data"));
  if (content == Content::everything && !index_.has_state)
    throw UserError(cat("'", path,
                        "' has no training state (no attribute schema): it is not a checkpoint; weights ",
                        "go into model.initial_weights"));
  if (const std::string problem = index_problem(index_); !problem.empty()) throw damaged(index_, problem);
  std::int64_t offset = 0;
  for (const StoredTensor& tensor : index_.tensors) {
    if (content == Content::weights ? !is_weight(tensor) : is_of_rows(tensor.path)) continue;
    stored_.push_back(&tensor);
    tensors_.push_back({tensor.path, tensor.shape, offset});
    offset += tensor.shape.size();
  }
  if (content == Content::weights && !has_parameters)
    throw UserError(cat(
        "'", path, "' has no datasets in /parameters: weights are looked for there, under the names that ",
        "flotilla inspect shows for a checkpoint of the model"));
}

std::span<const float> CheckpointFile::values(std::size_t tensor) {
  const StoredTensor& stored = *stored_[tensor];
  values_.resize(static_cast<std::size_t>(stored.shape.size()));
  const std::uint64_t found = reader_.read(stored, values_);
  if (stored.checksum && *stored.checksum != found)
    throw damaged(index_, cat("the values of /", stored.path,
                              " are not those that were written (the checksum differs)"));
  if (content_ == Content::weights) check_finite(index_.path, stored, values_);
  return values_;
}

Snapshot CheckpointFile::all() {
  Snapshot snapshot;
  snapshot.state = state();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const std::span<const float> read = values(i);
    snapshot.tensors.push_back(tensors_[i]);
    snapshot.values.insert(snapshot.values.end(), read.begin(), read.end());
  }
  return snapshot;
}

Snapshot read_weights(const std::string& path) {
  return CheckpointFile(path, CheckpointFile::Content::weights).all();
}

void check_tensors(std::span<const CheckpointTensor> tensors, std::span<const CheckpointTensor> expected,
                   const std::string& path) {
  const char* remedy = "; use the deck that made the file, or another file";
  std::map<std::string, Shape> found;
  for (const CheckpointTensor& tensor : tensors) found.emplace(tensor.path, tensor.shape);
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
