// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/host_memory.hpp"
#include "kernels/layers/output_loss.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// The losses of outputs that are numbers. Rows are added in order: the bits do not depend on the threads.
/// Outputs in bfloat16 are read as floats, and their gradient is rounded once.
class CpuOutputLoss : public Loss {
 public:
  /// @param precision of the outputs, float32 or bfloat16
  CpuOutputLoss(int threads, Precision precision, const OutputLossSpec& spec, const HostMemory& memory);
  void forward(const Tensor& outputs, const Targets& targets, DeviceSpan<float> sums) override;
  void backward(const Tensor& outputs, const Targets& targets, DeviceScalar<float> scale,
                Tensor& gradient) override;

 private:
  const float* floats_of(const Tensor& outputs);

  int threads_;
  OutputLossSpec spec_;
  Storage floats_;  // (N,O), of outputs or their gradient in bfloat16; empty in float32
  std::vector<double> rows_;
};

}  // namespace flotilla
