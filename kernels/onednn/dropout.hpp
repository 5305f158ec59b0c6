// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/dropout.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

/// Dropout by an own pass. The bits do not depend on the threads.
class CpuDropout : public Dropout {
 public:
  /// @param precision of the tensors, float32 or bfloat16
  CpuDropout(int threads, Precision precision, const DropoutSpec& spec);
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override;
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { forward(step, dy, dx); }

 private:
  int threads_;
  Precision precision_;
  DropoutSpec spec_;
};

}  // namespace flotilla
