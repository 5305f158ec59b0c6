// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device_memory.hpp"
#include "kernels/device_queue.hpp"
#include "kernels/flat_math.hpp"
#include "kernels/tensors.hpp"

/// Parts of a device whose work is complete when a call returns.
namespace flotilla {

/// The queue of a device whose work is complete when a call returns: it is always empty.
class HostQueue : public DeviceQueue {
 public:
  explicit HostQueue(const DeviceMemory& memory) : memory_(memory) {}  ///< `memory` must outlive its lanes.
  void submit() override {}
  void synchronize() override {}
  std::unique_ptr<CopyLane> copy_lane() override;
  NativeStream native_stream() const override { return {}; }

 private:
  const DeviceMemory& memory_;
};

/// Tensors of floats, on a device whose work is complete when a call returns. stage() points at the batch: a
/// device with memory of its own overrides it.
class HostTensors : public Tensors {
 public:
  /// Both must outlive it.
  HostTensors(const DeviceMemory& memory, FlatMath& flat) : memory_(memory), flat_(flat) {}
  Tensor zeros(const Shape& shape) override;
  std::size_t floats_of(const Shape& shape) const override { return static_cast<std::size_t>(shape.size()); }
  void download(const Tensor& from, std::span<float> host) override;
  bool all_finite(const Tensor& x) override;
  void stage(const HostBatch& batch, Tensor& to) override;
  void finish_staging() override {}

 protected:
  /// The values of a batch for a tensor of that shape. @throws InternalError for another number of values, or
  /// images of bytes
  static std::span<float> batch_values(const HostBatch& batch, const Shape& shape);

 private:
  const DeviceMemory& memory_;
  FlatMath& flat_;
};

}  // namespace flotilla
