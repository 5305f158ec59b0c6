// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/device.hpp"

namespace flotilla {

/// Whether a network is made to be trained, or only to be evaluated: then nothing is kept for backward.
enum class Purpose { training, inference };

/// The memory of a network's activations and of their gradients. Layers request tensors in their
/// constructors; allocate() then makes them in the places given, which must not move. Nothing is allocated
/// later.
class ActivationMemory {
 public:
  ActivationMemory(Device& device, Purpose purpose) : device_(device), purpose_(purpose) {}
  ActivationMemory(const ActivationMemory&) = delete;
  ActivationMemory& operator=(const ActivationMemory&) = delete;
  Purpose purpose() const { return purpose_; }

  /// A tensor of its own, kept from forward to backward.
  void keep(const Shape& shape, Tensor& where);
  /// A tensor in shared slot `slot`, which layers use one after another. A slot has the size of its largest
  /// tensor.
  void share(std::size_t slot, const Shape& shape, Tensor& where);

  /// One tensor of that shape in each of the slots of gradients: a layer that computes a gradient takes a
  /// free slot.
  static constexpr std::size_t gradient_slots = 3;
  class Gradient {
    friend class ActivationMemory;
    std::array<Tensor, gradient_slots> views_;
  };
  void plan_gradient(const Shape& shape, Gradient& where);
  void allocate();
  Tensor& take(Gradient& gradient);
  /// The tensor of `gradient` in the slot that `taken` lies in: other shape, same values.
  Tensor& same_slot(const Tensor& taken, Gradient& gradient);
  /// Frees the slot of a gradient; gradients in other memory (the loss's) are ignored.
  void give_back(const Tensor& gradient);
  /// The tensor that take() would return for this slot, which stays free: for benchmarks.
  static Tensor& view(Gradient& gradient, std::size_t slot) { return gradient.views_[slot]; }

  /// Counts a tensor that lies in a shared slot only because it is computed again in backward.
  void note_recomputed(const Shape& shape) { recomputed_ += floats_of(shape); }
  /// A tensor that lies in the one slot that is shared without recomputation as well.
  void note_shared_anyway(const Shape& shape) { shared_anyway_ = std::max(shared_anyway_, floats_of(shape)); }
  bool recomputes() const { return recomputed_ > 0; }
  /// Floats that recomputation saves, less those of the slots that it needs. 0 or less where it does not pay.
  std::int64_t recomputation_saves() const { return recomputed_ + shared_anyway_ - shared_count_; }

  std::int64_t kept_values() const { return kept_; }            ///< Floats
  std::int64_t shared_values() const { return shared_count_; }  ///< Floats
  std::int64_t gradient_values() const {
    return static_cast<std::int64_t>(gradient_slots) * largest_gradient_;
  }

 private:
  struct Shared {
    std::size_t slot;
    Shape shape;
    Tensor* where;
  };
  struct Planned {
    Shape shape;
    Gradient* where;
  };

  std::int64_t floats_of(const Shape& shape) const;
  Tensor view_of(const Shape& shape, Storage& storage);

  Device& device_;
  Purpose purpose_;
  std::int64_t kept_ = 0;
  std::int64_t shared_count_ = 0;
  std::int64_t recomputed_ = 0;
  std::int64_t shared_anyway_ = 0;
  std::int64_t largest_gradient_ = 0;
  std::vector<Shared> shares_;
  std::vector<Planned> gradients_;
  std::vector<Storage> shared_;
  std::array<Storage, gradient_slots> slots_;
  std::array<bool, gradient_slots> taken_{};
};

}  // namespace flotilla
