// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's product as plain loops on the host: d = f(alpha · op(a) op(b) + beta · c + bias), column by
// column. Stricter than the documentation: products of odd sizes have no epilogue, and every sum is one of
// two parts, which are rounded to the result's type where the caller lets the library choose such a
// reduction.
#include <cublasLt.h>

#include <algorithm>
#include <cstring>

#include "tests/cuda/fake/cublas.hpp"
#include "tests/cuda/fake/cudart.hpp"
#include "tests/cuda/fake/memory.hpp"
#include "tests/cuda/fake/queues.hpp"
#include "tests/cuda/fake/values.hpp"

struct cublasLtContext {};

namespace {

using flotilla::Precision;
using flotilla::fake::store_at;
using flotilla::fake::value_at;

struct Layout {
  Precision precision;
  std::int64_t rows;
  std::int64_t columns;
};
struct Product {
  std::int32_t transpose_a;
  std::int32_t transpose_b;
  std::uint32_t epilogue;
  const void* bias;
};
struct Preference {
  std::uint64_t workspace;
  std::uint32_t alignment;  // the least of the operands
  std::uint32_t reductions;
};
/// What the library keeps in the semi-opaque algorithm.
struct Algorithm {
  std::uint64_t magic;
  std::uint64_t workspace;
  std::uint64_t alignment;
  bool rounds_parts;  // of a sum, to the result's type
};
constexpr std::uint64_t magic = 0x5EED;

bool epilogues = true;
int products_to_refuse = 0;

const Layout& of(cublasLtMatrixLayout_t layout) {
  return *reinterpret_cast<const Layout*>(layout);
}
/// Whether columns begin at multiples of 16 bytes.
bool has_whole_packs(const Layout& layout) {
  return layout.rows % (is_half(layout.precision) ? 8 : 4) == 0;
}
double rounded(Precision precision, double value) {
  std::uint32_t stored = 0;
  store_at(&stored, precision, 0, value);
  return value_at(&stored, precision, 0);
}
Product& of(cublasLtMatmulDesc_t product) {
  return *reinterpret_cast<Product*>(product);
}
Preference& of(cublasLtMatmulPreference_t preference) {
  return *reinterpret_cast<Preference*>(preference);
}

struct Operand {
  Layout layout;
  const void* array;
  bool transposed;

  std::int64_t rows() const { return transposed ? layout.columns : layout.rows; }
  std::int64_t columns() const { return transposed ? layout.rows : layout.columns; }
  double at(std::int64_t row, std::int64_t column) const {
    return value_at(array, layout.precision,
                    transposed ? column + row * layout.rows : row + column * layout.rows);
  }
  bool valid(std::uint64_t alignment) const {
    const std::size_t bytes =
        (is_half(layout.precision) ? 2 : 4) * static_cast<std::size_t>(rows() * columns());
    return reinterpret_cast<std::uintptr_t>(array) % alignment == 0 &&
           flotilla::fake::is_device_memory(array, bytes);
  }
};

}  // namespace

void flotilla::fake::offer_epilogues(bool offered) {
  epilogues = offered;
}
void flotilla::fake::refuse_captured_products(int count) {
  products_to_refuse = count;
}

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t) {
  return "an error of the fake cuBLASLt";
}
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading) {
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{flotilla::fake::precision_of(type),
                                                              static_cast<std::int64_t>(rows),
                                                              static_cast<std::int64_t>(columns)});
  return leading == static_cast<std::int64_t>(rows) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(const cublasLtMatrixLayout_t made) {
  delete reinterpret_cast<Layout*>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(
      new Product{CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, nullptr});
  const bool known = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return known && scale == CUDA_R_32F ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulDescDestroy(const cublasLtMatmulDesc_t made) {
  delete reinterpret_cast<Product*>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                              cublasLtMatmulDescAttributes_t attribute, const void* value,
                                              std::size_t bytes) {
  const auto set = [&](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(of(product).transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(of(product).transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(of(product).epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(of(product).bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  *made =
      reinterpret_cast<cublasLtMatmulPreference_t>(new Preference{0, 256, CUBLASLT_REDUCTION_SCHEME_MASK});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(const cublasLtMatmulPreference_t made) {
  delete reinterpret_cast<Preference*>(made);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* value, std::size_t bytes) {
  if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) {
    if (bytes != sizeof(std::uint64_t)) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&of(preference).workspace, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  std::uint32_t number = 0;
  if (bytes != sizeof number) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&number, value, bytes);
  if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) {
    of(preference).reductions = number;
  } else {
    of(preference).alignment = std::min(of(preference).alignment, number);
  }
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int room,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  if (room < 1) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  const bool fuses = of(product).epilogue != CUBLASLT_EPILOGUE_DEFAULT;
  const bool suitable =
      epilogues && has_whole_packs(of(a)) && has_whole_packs(of(b)) && has_whole_packs(of(d));
  if (fuses && !suitable) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool rounds_parts = (of(preference).reductions & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                                                          CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) != 0;
  const Algorithm algorithm{magic, of(preference).workspace, of(preference).alignment, rounds_parts};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = algorithm.workspace;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product, const void* alpha,
                              const void* a_array, cublasLtMatrixLayout_t a_layout, const void* b_array,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c_array,
                              cublasLtMatrixLayout_t c_layout, void* d_array, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace, std::size_t bytes,
                              cudaStream_t stream) {
  if (products_to_refuse > 0 && flotilla::fake::capturing()) {
    --products_to_refuse;
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  Algorithm algorithm{};
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  const Product& how = of(product);
  const Operand a{of(a_layout), a_array, how.transpose_a == CUBLAS_OP_T};
  const Operand b{of(b_layout), b_array, how.transpose_b == CUBLAS_OP_T};
  const Operand c{of(c_layout), c_array, false};
  const Operand d{of(d_layout), d_array, false};
  if (algorithm.magic != magic || bytes < algorithm.workspace ||
      !flotilla::fake::is_device_memory(workspace, bytes) || !a.valid(algorithm.alignment) ||
      !b.valid(algorithm.alignment) || !c.valid(algorithm.alignment) || !d.valid(algorithm.alignment) ||
      a.columns() != b.rows() || d.rows() != a.rows() || d.columns() != b.columns())
    return CUBLAS_STATUS_INVALID_VALUE;
  // The scalars are read now: the library reads all captured arguments except the arrays only once.
  const double factor = *static_cast<const float*>(alpha);
  const double share = *static_cast<const float*>(beta);
  flotilla::fake::in_stream(stream, [=, how = how] {
    const bool biased = (how.epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
    const bool rectified = (how.epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
    flotilla::fake::spoil(workspace, bytes);
    for (std::int64_t column = 0; column < d.columns(); ++column) {
      for (std::int64_t row = 0; row < d.rows(); ++row) {
        double sum = 0.0;
        for (std::int64_t k = 0; k < a.columns(); ++k) {
          if (algorithm.rounds_parts && k == a.columns() / 2) sum = rounded(d.layout.precision, sum);
          sum += a.at(row, k) * b.at(k, column);
        }
        sum *= factor;
        if (share != 0.0) sum += share * c.at(row, column);
        if (biased) sum += value_at(how.bias, d.layout.precision, row);
        store_at(d_array, d.layout.precision, row + column * d.rows(), rectified ? std::max(sum, 0.0) : sum);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
