// SPDX-License-Identifier: Apache-2.0
#include "models/arena.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/random.hpp"

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

namespace {

/// Glorot & Bengio 2010 (xavier), He et al. 2015 (gain √2), LeCun et al. 1998 (gain 1); Fleet's
/// defaults are Xavier uniform for linear layers and zero biases.
void fill(std::span<float> values, const NamedTensor& tensor, Random random) {
  const auto in = static_cast<double>(tensor.fan_in);
  const auto out = static_cast<double>(tensor.fan_out);
  const auto uniform = [&](double bound) {
    for (float& value : values) value = static_cast<float>((2.0 * random.uniform() - 1.0) * bound);
  };
  const auto normal = [&](double deviation) {
    for (float& value : values) value = static_cast<float>(random.normal() * deviation);
  };
  using Kind = Initializer::Kind;
  switch (tensor.initializer.kind) {
    case Kind::zeros: std::fill(values.begin(), values.end(), 0.0F); break;
    case Kind::ones: std::fill(values.begin(), values.end(), 1.0F); break;
    case Kind::uniform: uniform(tensor.initializer.scale); break;
    case Kind::normal: normal(tensor.initializer.scale); break;
    case Kind::xavier_uniform: uniform(std::sqrt(6.0 / (in + out))); break;
    case Kind::xavier_normal: normal(std::sqrt(2.0 / (in + out))); break;
    case Kind::he_uniform: uniform(std::sqrt(6.0 / in)); break;
    case Kind::he_normal: normal(std::sqrt(2.0 / in)); break;
    case Kind::he_normal_fan_out: normal(std::sqrt(2.0 / out)); break;
    case Kind::lecun_normal: normal(std::sqrt(1.0 / in)); break;
  }
}

}  // namespace

Slice TensorSet::add(NamedTensor tensor) {
  const std::size_t index = layout_.add(tensor.name, tensor.shape, tensor.kind, tensor.stored_size);
  tensors_.push_back(std::move(tensor));
  return layout_[index];
}

void TensorSet::initialise(const DeviceMemory& memory, std::uint64_t seed, DeviceSpan<float> arena) const {
  std::vector<float> plain;
  for (std::size_t slice = 0; slice < tensors_.size(); ++slice) {
    plain.resize(static_cast<std::size_t>(tensors_[slice].shape.size()));
    fill(plain, tensors_[slice], Random(seed, random_weights, slice));
    import_slice(memory, slice, plain, arena);
  }
}

void TensorSet::import_slice(const DeviceMemory& memory, std::size_t slice, std::span<const float> plain,
                             DeviceSpan<float> arena) const {
  const DeviceSpan<float> stored = part_of(arena, layout_[slice]);
  if (is_plain(slice)) {
    memory.upload(plain, stored);
  } else {
    std::vector<float> host(stored.size());
    tensors_[slice].from_plain(plain, host);
    memory.upload(host, stored);
  }
}

std::uint64_t TensorSet::order() const {
  // FNV-1a of where each value of each slice lies.
  std::uint64_t hash = 14695981039346656037U;
  const auto add = [&hash](std::uint64_t value) { hash = (hash ^ value) * 1099511628211U; };
  std::vector<float> plain;
  std::vector<float> stored;
  for (std::size_t slice = 0; slice < tensors_.size(); ++slice) {
    add(static_cast<std::uint64_t>(layout_[slice].offset));
    if (is_plain(slice)) continue;
    plain.resize(static_cast<std::size_t>(tensors_[slice].shape.size()));
    stored.resize(static_cast<std::size_t>(layout_[slice].size));
    std::iota(plain.begin(), plain.end(), 1.0F);  // exact up to 2^24
    tensors_[slice].from_plain(plain, stored);
    for (const float value : stored) add(std::bit_cast<std::uint32_t>(value));
  }
  return hash;
}

}  // namespace flotilla
