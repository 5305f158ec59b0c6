// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layers/elementwise.hpp"
#include "kernels/precision.hpp"

namespace flotilla {

class CpuElementwise : public Elementwise {
 public:
  CpuElementwise(int threads, Precision precision, const ElementwiseSpec& spec)
      : threads_(threads), precision_(precision), spec_(spec) {}
  void forward(const Tensor& x, Tensor& y) override;
  void backward(const Tensor& x, const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  int threads_;
  Precision precision_;
  ElementwiseSpec spec_;
};

}  // namespace flotilla
