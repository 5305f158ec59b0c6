// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

}  // namespace flotilla
