// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>

namespace flotilla {

/// Extents of a tensor, outermost first; at most four. The default is a scalar (size 1).
class Shape {
 public:
  static constexpr int max_rank = 4;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  int rank() const { return rank_; }
  std::int64_t operator[](int axis) const { return extents_[static_cast<std::size_t>(axis)]; }
  std::int64_t size() const;         ///< Product of the extents.
  void append(std::int64_t extent);  ///< Adds an innermost axis.
  std::string text() const;          ///< "64x784"; "scalar" for rank 0.
  friend bool operator==(const Shape&, const Shape&) = default;

 private:
  std::array<std::int64_t, max_rank> extents_{};
  int rank_ = 0;
};

/// Memory of a device: an address that host code passes on but does not dereference. No operator[], so that
/// mixing it up with std::span (host memory) does not compile.
template <class T>
class DeviceSpan {
 public:
  constexpr DeviceSpan() = default;
  constexpr DeviceSpan(T* address, std::size_t size) : address_(address), size_(size) {}
  /// A span of mutable values converts to one of const values.
  template <class U>
  requires std::is_same_v<const U, T>
  constexpr DeviceSpan(DeviceSpan<U> other) : address_(other.address()), size_(other.size()) {}

  constexpr T* address() const { return address_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr DeviceSpan subspan(std::size_t offset, std::size_t count) const {
    return {address_ + offset, count};
  }
  friend bool operator==(const DeviceSpan&, const DeviceSpan&) = default;

 private:
  T* address_ = nullptr;
  std::size_t size_ = 0;
};

/// Owned memory of a device, zeroed, starting on 64 bytes. The deleter belongs to the device that made it.
class Storage {
 public:
  using Release = std::function<void(float*)>;

  Storage() = default;
  Storage(float* address, std::size_t size, Release release)
      : memory_(address, std::move(release)), size_(size) {}
  DeviceSpan<float> span() { return {memory_.get(), size_}; }
  DeviceSpan<const float> span() const { return {memory_.get(), size_}; }
  std::size_t size() const { return size_; }

 private:
  std::unique_ptr<float, Release> memory_{nullptr, Release([](float*) {})};
  std::size_t size_ = 0;
};

/// 32 bits of a tensor's storage: one float, or two halves. Not a float, so that operations on flat arrays of
/// floats (FlatMath) do not take activations.
enum class StorageWord : std::uint32_t {};
using TensorSpan = DeviceSpan<StorageWord>;
using GivenTensorSpan = DeviceSpan<const StorageWord>;

/// Bits of values in the half precision of a device.
using HalfSpan = DeviceSpan<std::uint16_t>;
using GivenHalfSpan = DeviceSpan<const std::uint16_t>;

/// A device's arrangement of a tensor's values; derived classes are private to the device. Null means plain
/// row-major.
class Layout {
 public:
  virtual ~Layout() = default;
};

/// Values on a device with a logical shape, of the device's precision. Move-only. Either owns its storage or
/// is a view of memory that the caller keeps alive (Tensors::stage, ImageOperations::view).
class Tensor {
 public:
  Tensor() = default;
  Tensor(Shape shape, Storage storage, std::shared_ptr<const Layout> layout = nullptr)
      : Tensor(shape, storage.span(), std::move(layout)) {
    storage_ = std::move(storage);
  }
  /// A view. `span` must hold at least shape.size() values.
  Tensor(Shape shape, TensorSpan span, std::shared_ptr<const Layout> layout = nullptr)
      : shape_(shape), span_(span), layout_(std::move(layout)) {}
  Tensor(Shape shape, DeviceSpan<float> memory, std::shared_ptr<const Layout> layout = nullptr)
      : Tensor(shape, TensorSpan(reinterpret_cast<StorageWord*>(memory.address()), memory.size()),
               std::move(layout)) {}

  const Shape& shape() const { return shape_; }
  TensorSpan span() { return span_; }
  GivenTensorSpan span() const { return span_; }
  const Layout* layout() const { return layout_.get(); }

 private:
  Shape shape_;
  Storage storage_;
  TensorSpan span_;
  std::shared_ptr<const Layout> layout_;
};

/// The values of a tensor as they lie in its storage, as a plain tensor of another shape of as many values. A
/// view, which must not outlive the tensor; of a const tensor to be read only.
inline Tensor plain_view(const Tensor& of, const Shape& shape) {
  return {shape, TensorSpan(const_cast<StorageWord*>(of.span().address()), of.span().size())};
}

}  // namespace flotilla
