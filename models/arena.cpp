// SPDX-License-Identifier: Apache-2.0
#include "models/arena.hpp"

#include "kernels/error.hpp"

namespace flotilla {

std::size_t ArenaLayout::add(std::string name, const Shape& shape, ParameterKind kind,
                             std::int64_t stored_size) {
  if (stored_size == 0) stored_size = shape.size();
  require(stored_size >= shape.size(), "slice ", name, " stores ", stored_size, " values of ", shape.size());
  slices_.push_back({std::move(name), shape, kind, size_, stored_size});
  size_ += (stored_size + alignment - 1) / alignment * alignment;
  return slices_.size() - 1;
}

void ArenaLayout::add_at(std::int64_t offset, std::string name, const Shape& shape, ParameterKind kind) {
  require(offset >= size_, "slice ", name, " begins at ", offset, ", inside the one before it");
  slices_.push_back({std::move(name), shape, kind, offset, shape.size()});
  size_ = offset + shape.size();
}

void ArenaLayout::grow_to(std::int64_t size) {
  require(size >= size_, "an arena of ", size_, " floats cannot shrink to ", size);
  size_ = size;
}

std::int64_t ArenaLayout::values() const {
  std::int64_t count = 0;
  for (const Slice& slice : slices_) count += slice.shape.size();
  return count;
}

}  // namespace flotilla
