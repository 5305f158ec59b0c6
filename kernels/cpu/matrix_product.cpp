// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/matrix_product.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/check.hpp"

namespace flotilla {

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

}  // namespace flotilla
