// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "kernels/device_memory.hpp"
#include "kernels/device_queue.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/flat_updates.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/image_operations.hpp"
#include "kernels/layers/layers.hpp"
#include "kernels/overflow_guard.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// `size` read-only values of one precision in device memory, aligned to 16 bytes.
struct GivenValues {
  const void* address = nullptr;
  std::int64_t size = 0;
  Precision precision = Precision::float32;
  friend bool operator==(const GivenValues&, const GivenValues&) = default;
};
/// `size` writable values of one precision in device memory, aligned to 16 bytes.
struct Values {
  void* address = nullptr;
  std::int64_t size = 0;
  Precision precision = Precision::float32;
  operator GivenValues() const { return {address, size, precision}; }
  friend bool operator==(const Values&, const Values&) = default;
};

/// Parameters, gradients and sums: always float32.
inline Values values_of(DeviceSpan<float> x) {
  return {x.address(), static_cast<std::int64_t>(x.size()), Precision::float32};
}
inline GivenValues values_of(DeviceSpan<const float> x) {
  return {x.address(), static_cast<std::int64_t>(x.size()), Precision::float32};
}

/// to = factor · from, or to + factor · from. Sizes equal.
struct CastSpec {
  float factor = 1.0F;
  bool add = false;
  friend bool operator==(const CastSpec&, const CastSpec&) = default;
};

/// The layout of images (N,C,H,W) in memory: (N,H,W,channels), or folded, for a convolution of stride 2 that
/// is computed as one of stride 1 on blocks of 2 × 2 pixels: (N,rows,columns,2,2,4), where place
/// (n,r,c,a,b,i) holds channel i ≤ 4 of pixel (2r + a − padding, 2c + b − padding). Places without a value
/// are zero.
struct ImageForm {
  std::int64_t channels = 0;  ///< Values of a pixel, or of a block (16)
  std::int64_t rows = 0;      ///< Blocks below one another; 0: not folded
  std::int64_t columns = 0;
  std::int64_t padding = 0;

  bool folded() const { return rows > 0; }
  /// Values of `shape` in memory.
  std::int64_t size(const Shape& shape) const {
    return shape[0] * (folded() ? rows * columns : shape[2] * shape[3]) * channels;
  }
  friend bool operator==(const ImageForm&, const ImageForm&) = default;
};
/// Channels of a pixel in a folded image.
inline constexpr std::int64_t folded_channels = 4;

/// Passes over values around the products and convolutions of the vendors' libraries. Images are (N,H,W,C) in
/// memory, though shapes are written (N,C,H,W); values are of any precision, one precision in a call unless
/// said otherwise. Checks sizes: InternalError.
class ValuePasses {
 public:
  virtual ~ValuePasses() = default;

  // Casts and layouts: from and to may differ in precision, and must not overlap.

  /// Sizes equal.
  virtual void cast(GivenValues from, Values to, const CastSpec& spec) = 0;
  /// Casts from[places[i]] to to[i], zero where the place is negative. `places` is as long as `to`.
  virtual void gather(DeviceSpan<const std::int32_t> places, GivenValues from, Values to,
                      const CastSpec& spec) = 0;
  /// (N,C,H,W) in memory to this form, of at least C channels.
  virtual void to_nhwc(const Shape& shape, const ImageForm& form, GivenValues from, Values to) = 0;
  /// (N,H,W,channels) in memory to (N,C,H,W), of the first C channels.
  virtual void from_nhwc(const Shape& shape, std::int64_t channels, GivenValues from, Values to) = 0;
  /// Bytes (N,H,W,C), C ≤ 4, to this form, of at least C channels.
  virtual void from_bytes(const Shape& shape, const ImageForm& form, DeviceSpan<const std::uint8_t> from,
                          const ByteScaling& scaling, Values to) = 0;

  /// x (rows, channels) becomes f(x + bias), bias (channels); empty: none.
  virtual void bias_activation(Activation f, std::int64_t channels, DeviceSpan<const float> bias,
                               Values x) = 0;
  /// dy (rows, channels) becomes the gradient of the sum before the activation, y its value; then db
  /// (channels, empty: none) = the sums of dy over rows, added to db with `accumulate`. identity reads no y.
  virtual void bias_activation_backward(Activation f, std::int64_t channels, GivenValues y, Values dy,
                                        DeviceSpan<float> db, bool accumulate) = 0;
};

/// Work of our own kernels on a GPU, in the order of the calls on one stream. Only functions
/// that return a number to the host (sums, norms and all_finite of flat()) wait for the device. All sums are
/// added in an order that depends on sizes only. Scratch memory grows with the first call that needs more.
class DeviceLoops {
 public:
  virtual ~DeviceLoops() = default;
  virtual std::string description() const = 0;  ///< "Kokkos 4.7.1, Cuda"
  virtual FlatMath& flat() = 0;
  virtual FlatUpdates& updates() = 0;
  virtual ValuePasses& passes() = 0;
  // Plans, with activations of a precision. What is passed must outlive them, as must the loops.
  virtual std::unique_ptr<Layers> layers(const DeviceMemory& memory, Precision precision,
                                         ProductLayers& products) = 0;
  virtual std::unique_ptr<ImageOperations> images(const DeviceMemory& memory, Precision precision,
                                                  DeviceQueue& queue) = 0;
  virtual std::unique_ptr<OverflowGuard> overflow_guard(const DeviceMemory& memory,
                                                        const OverflowGuardSpec& spec) = 0;
};

/// Device memory for scratch: floats, on 64 bytes. Its release must wait for kernels that use it.
using LoopMemory = std::function<Storage(std::size_t floats)>;

class WorkQueue;

/// The loops on a CUDA stream, which must outlive them, as must the KokkosScope and the queue. Starts Kokkos
/// on its GPU. @param queue Gets the kernels; null: they start at once.
/// @throws UserError where this build has none, saying which Kokkos to build.
std::unique_ptr<DeviceLoops> make_cuda_loops(NativeStream stream, LoopMemory memory, WorkQueue* queue);

}  // namespace flotilla
