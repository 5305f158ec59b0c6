// SPDX-License-Identifier: Apache-2.0
#include "src/train/state_source.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"

namespace flotilla {

StateSource::StateSource(const Network& network, std::span<const StateArray> arrays)
    : network_(network),
      groups_(state_groups(network, arrays)),
      tensors_(checkpoint_tensors(network, arrays)) {
  std::size_t bytes = 0;
  std::int64_t largest = 0;
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    bytes += groups_[group].values.size() * sizeof(float);
    const TensorSet& tensors = groups_[group].tensors;
    for (std::size_t slice = 0; slice < tensors.layout().slices().size(); ++slice) {
      positions_.push_back({group, slice});
      if (!tensors.is_plain(slice)) largest = std::max(largest, tensors.layout()[slice].shape.size());
    }
  }
  plain_.resize(static_cast<std::size_t>(largest));
  copies_ = !network.device().info().shares_host_memory || bytes < std::size_t{copied_below_bytes};
  if (copies_)
    for (const StateGroup& group : groups_)
      copy_.push_back(network.device().memory().pinned(group.values.size()));
}

void StateSource::take(std::span<const StateArray> arrays) {
  require(arrays.size() == groups_.size(), "other groups than those that the source was made for");
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    StateGroup& group = groups_[i];
    require(arrays[i].group == group.name && arrays[i].values.size() == group.values.size(), "a group ",
            arrays[i].group, " in the place of ", group.name);
    group.values = arrays[i].values;
    if (copies_) network_.device().memory().download(group.values, host_span(copy_[i].span()));
  }
}

std::int64_t StateSource::buffer_bytes() const {
  std::size_t floats = plain_.size();
  for (const Storage& values : copy_) floats += values.size();
  return static_cast<std::int64_t>(floats * sizeof(float));
}

std::span<const float> StateSource::values(std::size_t tensor) {
  const TensorPosition& position = positions_[tensor];
  const StateGroup& group = groups_[position.group];
  const Slice& slice = group.tensors.layout()[position.slice];
  const float* values = copies_ ? copy_[position.group].span().address() : group.values.address();
  const std::span<const float> stored(values + slice.offset, static_cast<std::size_t>(slice.size));
  const auto size = static_cast<std::size_t>(slice.shape.size());
  if (group.tensors.is_plain(position.slice)) return stored.first(size);
  group.tensors.to_plain(position.slice, stored, std::span(plain_).first(size));
  return std::span<const float>(plain_).first(size);
}

}  // namespace flotilla
