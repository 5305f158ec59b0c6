// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/host_tensors.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// Tensors of floats, whose batches are the host's, or of bfloat16 values, into which batches of floats are
/// rounded and images of bytes are scaled.
class CpuTensors : public HostTensors {
 public:
  /// `memory` and `flat` must outlive it.
  CpuTensors(int threads, Precision precision, const DeviceMemory& memory, FlatMath& flat)
      : HostTensors(memory, flat), threads_(threads), precision_(precision) {}
  std::size_t floats_of(const Shape& shape) const override;
  void download(const Tensor& from, std::span<float> host) override;
  bool all_finite(const Tensor& x) override;
  void round(DeviceSpan<const float> from, HalfSpan to) override;
  void stage(const HostBatch& batch, Tensor& to) override;

 private:
  int threads_;
  Precision precision_;
};

}  // namespace flotilla
