// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/gpu/scope.hpp"

namespace flotilla {

/// A matrix as cuBLAS sees it: column by column, without gaps. A plain (R,C) tensor is one of C rows and R
/// columns.
struct CudaMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  Precision precision = Precision::float32;
  bool transposed = false;  ///< The product takes its transpose.
};

/// d = f(a · b + bias), added up in float32; bias has a value for each row of d, in d's precision.
struct CudaProductSpec {
  CudaMatrix a;
  CudaMatrix b;
  Precision result = Precision::float32;
  bool bias = false;
  bool relu = false;  ///< f; only with bias
};

/// A matrix product by cuBLASLt, the algorithm that the library expects to be the fastest. Operands start on
/// 64 bytes. Where the library has none that applies bias and ReLU, the caller does, after the product.
class CudaProduct {
 public:
  /// @throws LibraryError if the library has no algorithm.
  CudaProduct(std::shared_ptr<CudaScope> scope, const CudaProductSpec& spec);
  /// Whether run() applies the bias, and ReLU, that the product was made for.
  bool applies_bias() const { return fused_; }
  /// @param share factor of the previous contents of d, which are added: 0 or 1. @param bias null unless
  /// applies_bias().
  void run(const void* a, const void* b, float share, void* d, const void* bias = nullptr);

 private:
  bool find_algorithm();
  void multiply(const void* a, const void* b, float share, void* d, const void* bias);

  std::shared_ptr<CudaScope> scope_;
  CudaProductSpec spec_;
  ProductDescriptor product_;
  MatrixLayout a_;
  MatrixLayout b_;
  MatrixLayout d_;
  bool fused_;
  cublasLtMatmulAlgo_t algorithm_{};
  GraphReleaseGuard last_call_;
};

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
