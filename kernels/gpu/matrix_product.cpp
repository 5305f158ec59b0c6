// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/matrix_product.hpp"

#include <utility>

#include "kernels/error.hpp"

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

}  // namespace flotilla
