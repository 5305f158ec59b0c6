// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/float_values.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/onednn/image_passes.hpp"

namespace flotilla {

/// Dropout by an own pass.
class CpuDropout : public Dropout {
 public:
  CpuDropout(int threads, const DropoutSpec& spec) : threads_(threads), spec_(spec) { check_spec(spec); }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override {
    check_dropout(spec_, step, x, y);
    drop_out(threads_, spec_, step, float_values(x).address(), float_values(y).address());
  }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { forward(step, dy, dx); }

 private:
  int threads_;
  DropoutSpec spec_;
};

}  // namespace flotilla
