// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layers/linear.hpp"

namespace flotilla {

/// One operand of a matrix product, row-major as stored.
struct Operand {
  const float* values = nullptr;
  bool transposed = false;  ///< The product takes the transpose of what is stored.
};

/// c (rows,columns) = a (rows,inner) · b (inner,columns) + beta · c, in the calling thread's `threads`
/// threads.
/// @throws LibraryError
void matrix_product(int threads, std::int64_t rows, std::int64_t columns, std::int64_t inner, Operand a,
                    Operand b, float beta, float* c);

/// Linear as one matrix product and one own pass. The weight lies as (I,O) in the arena: with (O,I) a product
/// of 64 rows does not get faster with a second thread. Not oneDNN's matmul with bias and tanh as
/// post-operations: 64 x 784 x 128 takes it 114 us, the product and the pass 112; 64 x 128 x 128 22.0
/// and 20.8 (oneDNN 2.6.3, Zen 4).
class CpuLinear : public Linear {
 public:
  CpuLinear(int threads, const LinearSpec& spec);
  std::int64_t weight_size() const override { return spec_.in * spec_.out; }
  std::int64_t flops() const override { return 2 * spec_.batch * weight_size(); }
  void forward(const Tensor& x, Weights w, Tensor& y) override;
  void backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) override;
  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override;
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override;

 private:
  int threads_;
  LinearSpec spec_;
};

}  // namespace flotilla
