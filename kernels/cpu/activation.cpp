// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/activation.hpp"

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/functions.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

struct FastMath {
  static constexpr auto tanh = fast_tanh;
  static constexpr auto sigmoid = fast_sigmoid;
  static constexpr auto erf = fast_erf;
  static constexpr auto exp = fast_exp_below_0;
};

/// Calls body with f as a constant, so that each loop is compiled for one function.
template <class Body>
void with_constant(Activation f, const Body& body) {
  [&]<std::size_t... i>(std::index_sequence<i...>) {
    ((f == all_activations[i] ? body(std::integral_constant<Activation, all_activations[i]>()) : void()),
     ...);
  }
  (std::make_index_sequence<all_activations.size()>());
}

template <Activation f, class T>
void activate(std::int64_t begin, std::int64_t end, const float* z, T* y) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i) y[i] = from_float<T>(activation_value<FastMath>(f, z[i]));
}

template <Activation f, class T>
void activate_with_bias(std::int64_t columns, const float* bias, const float* z, T* y) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    y[c] = from_float<T>(activation_value<FastMath>(f, z[c] + bias[c]));
}

template <Activation f, class T>
void apply_slope(std::int64_t columns, const T* y, T* dy) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    dy[c] = from_float<T>(to_float(dy[c]) * activation_slope(f, to_float(y[c])));
}

template <Activation f, class T>
void apply_slope_and_add(std::int64_t columns, const T* y, T* dy, float* sums) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const T dz = from_float<T>(to_float(dy[c]) * activation_slope(f, to_float(y[c])));
    dy[c] = dz;
    sums[c] += to_float(dz);
  }
}

template <Activation f, class T>
void activate_tensor(std::int64_t begin, std::int64_t end, const T* x, T* y) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i)
    y[i] = from_float<T>(activation_value<FastMath>(f, to_float(x[i])));
}

template <Activation f, class T>
void differentiate_tensor(std::int64_t begin, std::int64_t end, const T* x, const T* y, const T* dy, T* dx) {
#pragma omp simd
  for (std::int64_t i = begin; i < end; ++i)
    dx[i] = from_float<T>(to_float(dy[i]) * activation_slope<FastMath>(f, to_float(x[i]), to_float(y[i])));
}

/// Columns that a thread takes at a time: a cache line.
constexpr std::int64_t strip = 16;

}  // namespace

template <class T>
void add_bias_and_activate(int threads, Activation f, std::int64_t rows, std::int64_t columns,
                           const float* bias, const float* z, T* y) {
  with_constant(f, [&](auto constant) {
    constexpr Activation function = decltype(constant)::value;
    in_parts(threads_for(threads, rows * columns), rows, [&](std::int64_t first, std::int64_t last) {
      if (bias == nullptr) return activate<function>(first * columns, last * columns, z, y);
      for (std::int64_t row = first; row < last; ++row)
        activate_with_bias<function>(columns, bias, z + row * columns, y + row * columns);
    });
  });
}

template <class T>
void slope_and_bias_gradient(int threads, Activation f, std::int64_t rows, std::int64_t columns, const T* y,
                             T* dy, float* db, bool accumulate) {
  with_constant(f, [&](auto constant) {
    constexpr Activation function = decltype(constant)::value;
    // Threads take strips of columns, never rows, so that the sum of a column has one order.
    const std::int64_t strips = (columns + strip - 1) / strip;
    in_parts(threads_for(threads, rows * columns), strips, [&](std::int64_t first, std::int64_t last) {
      const std::int64_t begin = first * strip;
      const std::int64_t width = std::min(last * strip, columns) - begin;
      if (db != nullptr && !accumulate) std::fill_n(db + begin, width, 0.0F);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = row * columns + begin;
        if (db == nullptr) {
          apply_slope<function>(width, y + at, dy + at);
        } else {
          apply_slope_and_add<function>(width, y + at, dy + at, db + begin);
        }
      }
    });
  });
}

template <class T>
void activate(int threads, Activation f, std::int64_t count, const T* x, T* y) {
  with_constant(f, [&](auto constant) {
    in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
      activate_tensor<decltype(constant)::value>(begin, end, x, y);
    });
  });
}

template <class T>
void differentiate(int threads, Activation f, std::int64_t count, const T* x, const T* y, const T* dy,
                   T* dx) {
  with_constant(f, [&](auto constant) {
    in_parts(threads_for(threads, count), count, [&](std::int64_t begin, std::int64_t end) {
      differentiate_tensor<decltype(constant)::value>(begin, end, x, y, dy, dx);
    });
  });
}

template void activate(int, Activation, std::int64_t, const float*, float*);
template void activate(int, Activation, std::int64_t, const Bfloat16*, Bfloat16*);
template void differentiate(int, Activation, std::int64_t, const float*, const float*, const float*, float*);
template void differentiate(int, Activation, std::int64_t, const Bfloat16*, const Bfloat16*, const Bfloat16*,
                            Bfloat16*);
template void add_bias_and_activate(int, Activation, std::int64_t, std::int64_t, const float*, const float*,
                                    float*);
template void add_bias_and_activate(int, Activation, std::int64_t, std::int64_t, const float*, const float*,
                                    Bfloat16*);
template void slope_and_bias_gradient(int, Activation, std::int64_t, std::int64_t, const float*, float*,
                                      float*, bool);
template void slope_and_bias_gradient(int, Activation, std::int64_t, std::int64_t, const Bfloat16*, Bfloat16*,
                                      float*, bool);

}  // namespace flotilla
