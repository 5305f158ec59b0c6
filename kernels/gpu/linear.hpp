// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/gpu/matrix_product.hpp"

namespace flotilla {

/// Linear as products by cuBLASLt: bias and ReLU are fused into the forward product, other activations are a
/// pass of their own. The weight lies plain, (O,I), in the arena. In half precision x and y are halves, and
/// so are weight and bias, which are given so; gradients of parameters come out in float32.
class CudaLinear : public Linear {
 public:
  CudaLinear(std::shared_ptr<CudaScope> scope, const LinearSpec& spec);
  std::int64_t weight_size() const override { return spec_.in * spec_.out; }
  std::int64_t flops() const override { return 2 * spec_.batch * weight_size(); }
  void forward(const Tensor& x, Weights w, Tensor& y) override;
  void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) override;
  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override;
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override;

 private:
  std::shared_ptr<CudaScope> scope_;
  LinearSpec spec_;
  CudaProduct forward_;
  CudaProduct weight_gradient_;
  CudaProduct input_gradient_;
};

}  // namespace flotilla
