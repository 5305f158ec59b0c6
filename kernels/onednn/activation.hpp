// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layers/linear.hpp"

namespace flotilla {

/// y = f(y + b), rows × columns in place; `bias` may be null. One pass: reads and writes y.
void add_bias_and_activate(int threads, Activation f, std::int64_t rows, std::int64_t columns,
                           const float* bias, float* y);

/// dy = dy · f'(y) in place and db = (db if `accumulate` +) Σ over rows of dy; `db` may be null. One pass.
/// Each column is added from the first row to the last: the bits do not depend on the threads.
void slope_and_bias_gradient(int threads, Activation f, std::int64_t rows, std::int64_t columns,
                             const float* y, float* dy, float* db, bool accumulate);

}  // namespace flotilla
