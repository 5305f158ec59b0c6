// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "kernels/layers/layer_norm.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// LayerNorm by own passes. The bits do not depend on the threads.
class CpuLayerNorm : public LayerNorm {
 public:
  CpuLayerNorm(int threads, Precision precision, const LayerNormSpec& spec);
  void forward(const Tensor& x, ScaleShift w, Tensor& y) override;
  void backward(const Tensor& x, ScaleShift w, const Tensor& dy, ScaleShiftGradients gradients,
                Tensor& dx) override;

 private:
  int threads_;
  Precision precision_;
  LayerNormSpec spec_;
  std::vector<float> means_;   // of the rows of the last forward pass
  std::vector<float> slopes_;  // 1 / √(variance + ε)
};

}  // namespace flotilla
