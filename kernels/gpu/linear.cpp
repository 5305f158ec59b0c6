// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/linear.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/loop_tensors.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

/// NVIDIA's advice for Hopper; older chips take less of it.
constexpr std::uint64_t workspace = 32 << 20;  // bytes
constexpr std::uint32_t alignment = 32;        // bytes: of slices of halves; of floats, views and the pool 64

cudaDataType cublas_type(Precision precision) {
  switch (precision) {
    case Precision::float32: return CUDA_R_32F;
    case Precision::float16: return CUDA_R_16F;
    case Precision::bfloat16: return CUDA_R_16BF;
  }
  throw InternalError("a precision that cuBLAS does not know");
}

MatrixLayout layout(std::int64_t rows, std::int64_t columns, Precision precision) {
  return created<MatrixLayout>("cublasLtMatrixLayoutCreate", cublasLtMatrixLayoutCreate,
                               cublas_type(precision), static_cast<std::uint64_t>(rows),
                               static_cast<std::uint64_t>(columns), rows);
}

std::int64_t result_rows(const CudaProductSpec& s) {
  return s.a.transposed ? s.a.columns : s.a.rows;
}
std::int64_t result_columns(const CudaProductSpec& s) {
  return s.b.transposed ? s.b.rows : s.b.columns;
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}
template <class T>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

void set_transposed(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t which, bool transposed) {
  set(product, which, std::int32_t{transposed ? CUBLAS_OP_T : CUBLAS_OP_N});
}

const LinearSpec& checked(const LinearSpec& spec) {
  check_spec(spec);
  return spec;
}

// Plain tensors as cuBLAS sees them: y = W x with W (O,I) read as its transpose.
CudaMatrix input(const LinearSpec& s, Precision p) {
  return {.rows = s.in, .columns = s.batch, .precision = p};
}
CudaMatrix output(const LinearSpec& s, Precision p) {
  return {.rows = s.out, .columns = s.batch, .precision = p};
}
CudaMatrix weight(const LinearSpec& s, Precision p) {
  return {.rows = s.in, .columns = s.out, .precision = p};
}
CudaMatrix transposed(CudaMatrix matrix) {
  matrix.transposed = true;
  return matrix;
}

/// Whether the product itself applies the activation.
bool rides_along(const LinearSpec& s) {
  return s.bias && s.activation == Activation::relu;
}

}  // namespace

CudaProduct::CudaProduct(std::shared_ptr<CudaScope> scope, const CudaProductSpec& spec)
    : scope_(std::move(scope)),
      spec_(spec),
      // TF32 is a matter of float32 operands only.
      product_(created<ProductDescriptor>("cublasLtMatmulDescCreate", cublasLtMatmulDescCreate,
                                          scope_->tf32() == Tf32::all && !is_half(spec.a.precision)
                                              ? CUBLAS_COMPUTE_32F_FAST_TF32
                                              : CUBLAS_COMPUTE_32F,
                                          CUDA_R_32F)),
      a_(layout(spec.a.rows, spec.a.columns, spec.a.precision)),
      b_(layout(spec.b.rows, spec.b.columns, spec.b.precision)),
      d_(layout(result_rows(spec), result_columns(spec), spec.result)),
      fused_(spec.bias),
      last_call_(scope_) {
  require(spec.bias || !spec.relu, "a product applies ReLU only after a bias");
  set_transposed(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA, spec.a.transposed);
  set_transposed(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB, spec.b.transposed);
  if (spec.bias) {
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE,
        std::uint32_t{spec.relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS});
    // Not dereferenced: the address gives the alignment of the bias.
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, std::uintptr_t{alignment});
  }
  scope_->reserve(workspace);
  if (find_algorithm()) return;
  if (fused_) {
    fused_ = false;
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_DEFAULT});
    if (find_algorithm()) return;
  }
  throw LibraryError("cublasLtMatmulAlgoGetHeuristic",
                     cat("no algorithm for a product of ", result_rows(spec_), "x", result_columns(spec_)));
}

/// Whether there is one for the product as it is described.
bool CudaProduct::find_algorithm() {
  const auto preference =
      created<ProductPreference>("cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate);
  set(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
  // A sum in parts is one of floats: the other schemes would round each part to the result's type.
  set(preference.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set(preference.get(), operand, alignment);
  }
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(scope_->cublas(), product_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
                                     preference.get(), 1, &best, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  if (found == 0 || best.state == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check(best.state, "cublasLtMatmulAlgoGetHeuristic");
  algorithm_ = best.algo;
  return true;
}

void CudaProduct::run(const void* a, const void* b, float share, void* d, const void* bias) {
  require((bias != nullptr) == fused_, "a product takes a bias if it applies one, and only then");
  scope_->hand_out<&CudaProduct::multiply>(*this, a, b, share, d, bias);
}

void CudaProduct::multiply(const void* a, const void* b, float share, void* d, const void* bias) {
  if (bias != nullptr) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float one = 1.0F;
  check(
      cublasLtMatmul(scope_->cublas(), product_.get(), &one, a, a_.get(), b, b_.get(), &share, d, d_.get(), d,
                     d_.get(), &algorithm_, scope_->workspace(), workspace, scope_->memory().bare_stream()),
      "cublasLtMatmul");
}

CudaLinear::CudaLinear(std::shared_ptr<CudaScope> scope, const LinearSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      forward_(scope_, {.a = transposed(weight(spec, scope_->precision())),
                        .b = input(spec, scope_->precision()),
                        .result = scope_->precision(),
                        .bias = spec.bias,
                        .relu = rides_along(spec)}),
      weight_gradient_(scope_, {.a = input(spec, scope_->precision()),
                                .b = transposed(output(spec, scope_->precision()))}),
      input_gradient_(scope_, {.a = weight(spec, scope_->precision()),
                               .b = output(spec, scope_->precision()),
                               .result = scope_->precision()}) {}

void CudaLinear::forward(const Tensor& x, Weights w, Tensor& y) {
  check_forward(spec_, weight_size(), x, w, y);
  const bool fused = forward_.applies_bias();
  forward_.run(operand_of(w.weight, w.half_weight, scope_->precision()), x.span().address(), 0.0F,
               y.span().address(), fused ? operand_of(w.bias, w.half_bias, scope_->precision()) : nullptr);
  const DeviceSpan<const float> bias = fused ? DeviceSpan<const float>() : w.bias;
  const bool activated = spec_.activation == Activation::identity || (fused && rides_along(spec_));
  if (!bias.empty() || !activated)
    scope_->passes().bias_activation(spec_.activation, spec_.out, bias, values_of(y, scope_->precision()));
}

void CudaLinear::backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) {
  check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
  if (spec_.bias || spec_.activation != Activation::identity) {
    scope_->passes().bias_activation_backward(spec_.activation, spec_.out, values_of(y, scope_->precision()),
                                              values_of(dy, scope_->precision()), dw.bias, spec_.accumulate);
  }
  weight_gradient_.run(x.span().address(), dy.span().address(), spec_.accumulate ? 1.0F : 0.0F,
                       dw.weight.address());
  if (dx == nullptr) return;
  input_gradient_.run(operand_of(w.weight, w.half_weight, scope_->precision()), dy.span().address(), 0.0F,
                      dx->span().address());
}

void CudaLinear::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  copy_plain_weight(weight_size(), plain, stored);
}

void CudaLinear::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  copy_plain_weight(weight_size(), stored, plain);
}

}  // namespace flotilla
