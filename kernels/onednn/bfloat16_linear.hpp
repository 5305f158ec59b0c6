// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "kernels/bfloat16_values.hpp"
#include "kernels/onednn/linear.hpp"
#include "kernels/onednn/operation.hpp"
#include "kernels/onednn/packed_weight.hpp"

namespace flotilla {

/// Linear on tensors of bfloat16, as oneDNN's matmul with sums in float32 and one own pass. The weight lies
/// in the arena as that of CpuLinear does; each pass makes its copies in bfloat16.
class CpuBfloat16Linear : public CpuLinear {
 public:
  CpuBfloat16Linear(std::shared_ptr<PrimitiveScope> scope, const LinearSpec& spec);
  void forward(const Tensor& x, Weights w, Tensor& y) override;
  void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) override;

 private:
  void make_operations();
  void make_input_gradient();

  std::shared_ptr<PrimitiveScope> scope_;
  Operation forward_;
  Operation weight_gradient_;
  Operation input_gradient_;            // made when it is first asked for
  std::optional<PackedWeight> packed_;  // none: forward reads the plain copy
  Storage weight_;                      // copy that forward reads
  Storage plain_weight_;                // copy that backward reads, in the arena's order
  Storage sums_;                        // of forward, in float32, before bias and activation
};

}  // namespace flotilla
