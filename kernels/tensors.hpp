// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "kernels/error.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// Plain tensors of a device, of its precision; and the batches of a data set, which become tensors.
class Tensors {
 public:
  virtual ~Tensors() = default;
  virtual Tensor zeros(const Shape& shape) = 0;  ///< In plain layout
  /// Floats of storage that a tensor of that shape takes: half as many, rounded up, where two values share
  /// one.
  virtual std::size_t floats_of(const Shape& shape) const = 0;
  /// The values of a plain tensor as floats, whatever the precision. host.size() = shape.size().
  virtual void download(const Tensor& from, std::span<float> host) = 0;
  /// to ← from in the device's half precision, sizes equal. Only where DeviceInfo::reads_halves.
  virtual void round(DeviceSpan<const float> /*from*/, HalfSpan /*to*/) {
    throw InternalError("this device reads no halves of parameters");
  }
  virtual bool all_finite(const Tensor& x) = 0;  ///< Whether no value is NaN or infinite; any layout
  /// Makes a host batch available as `to` (plain, shape kept; for images (N,C,H,W) or (N,C·H·W)): a CPU
  /// points `to` at it, a device with memory of its own copies it, into memory that it makes if `to` has
  /// none. A layout of Conv2d::batch_layout is kept. The host memory must not change until finish_staging()
  /// after its last use.
  /// @throws InternalError for bytes where DeviceInfo::stages_bytes is false
  virtual void stage(const HostBatch& batch, Tensor& to) = 0;
  /// Returns when no work queued so far will read a batch or Targets any more.
  virtual void finish_staging() = 0;
};

}  // namespace flotilla
