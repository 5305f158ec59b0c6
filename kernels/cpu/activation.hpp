// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layers/linear.hpp"

namespace flotilla {

/// y = f(z + b), rows × columns; `bias` may be null. One pass; y may be z. T is float or Bfloat16.
template <class T>
void add_bias_and_activate(int threads, Activation f, std::int64_t rows, std::int64_t columns,
                           const float* bias, const float* z, T* y);

/// dy = dy · f'(y) in place and db = (db if `accumulate` +) Σ over rows of dy; `db` may be null. One pass.
/// Each column is added from the first row to the last: the bits do not depend on the threads. T is float or
/// Bfloat16.
template <class T>
void slope_and_bias_gradient(int threads, Activation f, std::int64_t rows, std::int64_t columns, const T* y,
                             T* dy, float* db, bool accumulate);

/// y = f(x) on `count` values; T is float or Bfloat16.
template <class T>
void activate(int threads, Activation f, std::int64_t count, const T* x, T* y);
/// dx = dy · f'(x), y = f(x), on `count` values; dx may be dy.
template <class T>
void differentiate(int threads, Activation f, std::int64_t count, const T* x, const T* y, const T* dy, T* dx);

}  // namespace flotilla
