// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/device_memory.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// The kind of a parameter, for exclusions from weight decay.
enum class ParameterKind { weight, bias, batch_norm };

/// A named range of a flat array, in floats. Starts on 64 bytes; what follows up to the next slice is zero.
struct Slice {
  std::string name;  ///< torchvision's names where there are any: "fc.bias"
  Shape shape;       ///< Logical, as in checkpoints
  ParameterKind kind = ParameterKind::weight;
  std::int64_t offset = 0;
  std::int64_t size = 0;  ///< Number of values as stored by the device; at least shape.size()
};

/// The layout of a flat array of parameters, gradients or statistics: slices in forward order.
class ArenaLayout {
 public:
  static constexpr std::int64_t alignment = 16;  ///< floats: 64 bytes

  /// Appends a slice and returns its index. `stored_size` 0: shape.size().
  std::size_t add(std::string name, const Shape& shape, ParameterKind kind, std::int64_t stored_size = 0);
  /// Appends a slice of plain values that begins at `offset`, after all others; not aligned.
  void add_at(std::int64_t offset, std::string name, const Shape& shape, ParameterKind kind);
  void grow_to(std::int64_t size);  ///< Floats in all, at least size().
  const std::vector<Slice>& slices() const { return slices_; }
  const Slice& operator[](std::size_t index) const { return slices_[index]; }
  std::int64_t size() const { return size_; }  ///< Floats in all, padding included.
  std::int64_t values() const;                 ///< Logical values: the number of parameters.

 private:
  std::vector<Slice> slices_;
  std::int64_t size_ = 0;
};

/// The initial values of a tensor.
struct Initializer {
  enum class Kind {
    zeros,
    ones,
    uniform,
    normal,
    xavier_uniform,
    xavier_normal,
    he_uniform,
    he_normal,
    he_normal_fan_out,
    lecun_normal,
  };
  Kind kind = Kind::xavier_uniform;
  double scale = 0.0;  ///< uniform: the bound; normal: the deviation
};

/// A tensor of a network's arenas: its name, its initial values, and the conversion between the plain order
/// of files and the arena.
struct NamedTensor {
  std::string name;
  Shape shape;
  ParameterKind kind = ParameterKind::weight;
  Initializer initializer{};
  std::int64_t fan_in = 0;
  std::int64_t fan_out = 0;
  std::int64_t stored_size = 0;  ///< 0: shape.size()
  std::function<void(std::span<const float> plain, std::span<float> stored)> from_plain{};  ///< Null: plain
  std::function<void(std::span<const float> stored, std::span<float> plain)> to_plain{};    ///< Null: plain
};

/// The tensors of one kind of arena, parameters or statistics, in forward order.
class TensorSet {
 public:
  Slice add(NamedTensor tensor);  ///< Appends a tensor and returns its slice.
  const ArenaLayout& layout() const { return layout_; }

  /// Fills an arena with initial values: a pure function of (seed, tensor), independent of the device.
  void initialise(const DeviceMemory& memory, std::uint64_t seed, DeviceSpan<float> arena) const;
  /// Sets one slice of an arena (the tensors, or anything of the same layout) from plain values.
  void import_slice(const DeviceMemory& memory, std::size_t slice, std::span<const float> plain,
                    DeviceSpan<float> arena) const;
  /// An identifier of the order in which the set stores values. Networks and workers that share or add up
  /// arenas must have equal ones.
  std::uint64_t order() const;
  /// Whether a slice is stored in the plain order of files; where not, to_plain() converts it, in host
  /// memory. Safe while a step is running.
  bool is_plain(std::size_t slice) const { return !tensors_[slice].to_plain; }
  void to_plain(std::size_t slice, std::span<const float> stored, std::span<float> plain) const {
    tensors_[slice].to_plain(stored, plain);
  }
  void from_plain(std::size_t slice, std::span<const float> plain, std::span<float> stored) const {
    tensors_[slice].from_plain(plain, stored);
  }

 private:
  ArenaLayout layout_;
  std::vector<NamedTensor> tensors_;  ///< Tensor of each slice
};

/// The part of an arena that a slice takes; empty of an empty arena.
template <class T>
DeviceSpan<T> part_of(DeviceSpan<T> arena, const Slice& slice) {
  if (arena.empty()) return {};
  return arena.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
}

}  // namespace flotilla
