// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/host_memory.hpp"
#include "kernels/layers/softmax_loss.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// Softmax and cross entropy in one pass over the logits forward, which keeps exp(logit − highest) for the
/// pass backward. Rows are added in order: the bits do not depend on the threads. Logits in bfloat16 are read
/// as floats, and their gradient is rounded once.
class CpuSoftmaxLoss : public Loss {
 public:
  /// @param precision of the logits, float32 or bfloat16
  CpuSoftmaxLoss(int threads, Precision precision, const SoftmaxLossSpec& spec, const HostMemory& memory);
  void forward(const Tensor& logits, const Targets& targets, DeviceSpan<float> sums) override;
  void backward(const Tensor& logits, const Targets& targets, DeviceScalar<float> scale,
                Tensor& dlogits) override;

 private:
  struct Row {
    double loss = 0.0;
    float normaliser = 1.0F;  // 1 / Σ exp(logit − highest)
    std::int32_t before = 0;  // classes before the label in order of falling logits
  };

  int threads_;
  SoftmaxLossSpec spec_;
  Storage exponentials_;  // (N,C)
  Storage floats_;        // (N,C), of logits or their gradient in bfloat16; empty in float32
  std::vector<Row> rows_;
};

}  // namespace flotilla
