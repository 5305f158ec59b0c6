// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/activation.hpp"

#include <algorithm>

#include "kernels/bfloat16_values.hpp"
#include "kernels/onednn/functions.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

// f and f' (of y = f(z)) as types, so that each loop is compiled for one function.
struct Identity {
  static float value(float z) { return z; }
  static float slope(float) { return 1.0F; }
};
struct Relu {
  static float value(float z) { return z < 0.0F ? 0.0F : z; }  // NaN stays NaN
  static float slope(float y) { return y > 0.0F ? 1.0F : 0.0F; }
};
struct Tanh {
  static float value(float z) { return fast_tanh(z); }
  static float slope(float y) { return 1.0F - y * y; }
};
struct Sigmoid {
  static float value(float z) { return fast_sigmoid(z); }
  static float slope(float y) { return y * (1.0F - y); }
};

/// Calls body with the type of f.
template <class Body>
void with_function(Activation f, const Body& body) {
  switch (f) {
    case Activation::identity: return body(Identity{});
    case Activation::relu: return body(Relu{});
    case Activation::tanh: return body(Tanh{});
    case Activation::sigmoid: return body(Sigmoid{});
  }
}

template <class F, class T>
void activate(std::int64_t begin, std::int64_t end, const float* z, T* y) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) y[i] = from_float<T>(F::value(z[i]));
}

template <class F, class T>
void activate_with_bias(std::int64_t columns, const float* bias, const float* z, T* y) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) y[c] = from_float<T>(F::value(z[c] + bias[c]));
}

template <class F, class T>
void apply_slope(std::int64_t columns, const T* y, T* dy) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    dy[c] = from_float<T>(to_float(dy[c]) * F::slope(to_float(y[c])));
}

template <class F, class T>
void apply_slope_and_add(std::int64_t columns, const T* y, T* dy, float* sums) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const T dz = from_float<T>(to_float(dy[c]) * F::slope(to_float(y[c])));
    dy[c] = dz;
    sums[c] += to_float(dz);
  }
}

/// Columns that a thread takes at a time: a cache line.
constexpr std::int64_t strip = 16;

}  // namespace

template <class T>
void add_bias_and_activate(int threads, Activation f, std::int64_t rows, std::int64_t columns,
                           const float* bias, const float* z, T* y) {
  with_function(f, [&]<class F>(F) {
    in_parts(threads_for(threads, rows * columns), rows, [&](std::int64_t first, std::int64_t last) {
      if (bias == nullptr) return activate<F>(first * columns, last * columns, z, y);
      for (std::int64_t row = first; row < last; ++row)
        activate_with_bias<F>(columns, bias, z + row * columns, y + row * columns);
    });
  });
}

template <class T>
void slope_and_bias_gradient(int threads, Activation f, std::int64_t rows, std::int64_t columns, const T* y,
                             T* dy, float* db, bool accumulate) {
  with_function(f, [&]<class F>(F) {
    // Threads take strips of columns, never rows, so that the sum of a column has one order.
    const std::int64_t strips = (columns + strip - 1) / strip;
    in_parts(threads_for(threads, rows * columns), strips, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t begin = first * strip;
      const std::int64_t width = std::min(last * strip, columns) - begin;
      if (db != nullptr && !accumulate) std::fill_n(db + begin, width, 0.0F);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = row * columns + begin;
        if (db == nullptr) {
          apply_slope<F>(width, y + at, dy + at);
        } else {
          apply_slope_and_add<F>(width, y + at, dy + at, db + begin);
        }
      }
    });
  });
}

template void add_bias_and_activate(int, Activation, std::int64_t, std::int64_t, const float*, const float*,
                                    float*);
template void add_bias_and_activate(int, Activation, std::int64_t, std::int64_t, const float*, const float*,
                                    Bfloat16*);
template void slope_and_bias_gradient(int, Activation, std::int64_t, std::int64_t, const float*, float*,
                                      float*, bool);
template void slope_and_bias_gradient(int, Activation, std::int64_t, std::int64_t, const Bfloat16*, Bfloat16*,
                                      float*, bool);

}  // namespace flotilla
