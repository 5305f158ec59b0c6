// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/linear.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/activation.hpp"
#include "kernels/cpu/check.hpp"
#include "kernels/float_values.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

namespace {

/// to (columns,rows) = the transpose of from (rows,columns).
void transpose(std::int64_t rows, std::int64_t columns, std::span<const float> from, std::span<float> to) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      to[static_cast<std::size_t>(column * rows + row)] =
          from[static_cast<std::size_t>(row * columns + column)];
    }
  }
}

}  // namespace

void matrix_product(int threads, std::int64_t rows, std::int64_t columns, std::int64_t inner, Operand a,
                    Operand b, float beta, float* c) {
  // Products of 64 x 128 x 128, 20 us for one thread: with two of them the step of a small MLP is slower as a
  // whole, also where nothing else runs.
  constexpr std::int64_t min_shared = 2'000'000;
  // oneDNN takes the number of the calling thread, which another library may have set meanwhile.
  omp_set_num_threads(rows * columns * inner < min_shared ? 1 : threads);
  check(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', rows, columns, inner, 1.0F, a.values,
                   a.transposed ? rows : inner, b.values, b.transposed ? inner : columns, beta, c, columns),
        "dnnl_sgemm");
}

CpuLinear::CpuLinear(int threads, const LinearSpec& spec) : threads_(threads), spec_(spec) {
  check_spec(spec);
}

void CpuLinear::forward(const Tensor& x, Weights w, Tensor& y) {
  check_forward(spec_, weight_size(), x, w, y);
  float* const out = float_values(y).address();
  matrix_product(threads_, spec_.batch, spec_.out, spec_.in, {float_values(x).address()},
                 {w.weight.address()}, 0.0F, out);
  if (!spec_.bias && spec_.activation == Activation::identity) return;
  add_bias_and_activate(threads_, spec_.activation, spec_.batch, spec_.out,
                        spec_.bias ? w.bias.address() : nullptr, out, out);
}

void CpuLinear::backward(const Tensor& x, const Tensor& y, Weights w, Tensor& dy, Gradients dw, Tensor* dx) {
  check_backward(spec_, weight_size(), x, y, w, dy, dw, dx);
  float* const dz = float_values(dy).address();
  if (spec_.bias || spec_.activation != Activation::identity) {
    slope_and_bias_gradient(threads_, spec_.activation, spec_.batch, spec_.out, float_values(y).address(), dz,
                            spec_.bias ? dw.bias.address() : nullptr, spec_.accumulate);
  }
  matrix_product(threads_, spec_.in, spec_.out, spec_.batch, {float_values(x).address(), true}, {dz},
                 spec_.accumulate ? 1.0F : 0.0F, dw.weight.address());
  if (dx == nullptr) return;
  matrix_product(threads_, spec_.batch, spec_.in, spec_.out, {dz}, {w.weight.address(), true}, 0.0F,
                 float_values(*dx).address());
}

void CpuLinear::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  check_weight_copy(weight_size(), weight_size(), plain.size(), stored.size());
  transpose(spec_.out, spec_.in, plain, stored);
}

void CpuLinear::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  check_weight_copy(weight_size(), weight_size(), plain.size(), stored.size());
  transpose(spec_.in, spec_.out, stored, plain);
}

}  // namespace flotilla
