// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/host_memory.hpp"
#include "kernels/layers/softmax_loss.hpp"

namespace flotilla {

/// SoftmaxLoss in one pass over the logits forward, which keeps exp(logit − highest) for the pass backward.
/// Rows are added in order: the bits do not depend on the threads.
class CpuSoftmaxLoss : public SoftmaxLoss {
 public:
  CpuSoftmaxLoss(int threads, const SoftmaxLossSpec& spec, const HostMemory& memory);
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
  std::vector<Row> rows_;
};

}  // namespace flotilla
