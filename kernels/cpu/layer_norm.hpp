// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/bfloat16_values.hpp"
#include "kernels/layers/layer_norm.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/precision.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

template <class T>
void normalise_row(std::int64_t columns, float epsilon, const float* scale, const float* shift, const T* x,
                   T* y, float& mean, float& slope) {
  double sum = 0.0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t c = 0; c < columns; ++c) sum += static_cast<double>(to_float(x[c]));
  const double middle = sum / static_cast<double>(columns);
  mean = static_cast<float>(middle);
  double squares = 0.0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t c = 0; c < columns; ++c) {
    const double off = static_cast<double>(to_float(x[c])) - middle;
    squares += off * off;
  }
  slope = static_cast<float>(
      1.0 / std::sqrt(squares / static_cast<double>(columns) + static_cast<double>(epsilon)));
  const float of_row = slope;
  const float mean_of_row = mean;
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c)
    y[c] = from_float<T>((to_float(x[c]) - mean_of_row) * of_row * scale[c] + shift[c]);
}

template <class T>
void differentiate_row(std::int64_t columns, const float* scale, const T* x, const T* dy, float mean,
                       float slope, T* dx) {
  double sum = 0.0;
  double product = 0.0;
#pragma omp simd reduction(+ : sum, product)
  for (std::int64_t c = 0; c < columns; ++c) {
    const float g = scale[c] * to_float(dy[c]);
    sum += static_cast<double>(g);
    product += static_cast<double>(g * ((to_float(x[c]) - mean) * slope));
  }
  const auto mean_g = static_cast<float>(sum / static_cast<double>(columns));
  const auto mean_product = static_cast<float>(product / static_cast<double>(columns));
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const float normal = (to_float(x[c]) - mean) * slope;
    dx[c] = from_float<T>(slope * (scale[c] * to_float(dy[c]) - mean_g - normal * mean_product));
  }
}

/// Adds a row's part to the gradients of some columns.
template <class T>
void add_row(std::int64_t columns, const T* x, const T* dy, float mean, float slope, float* dscale,
             float* dshift) {
#pragma omp simd
  for (std::int64_t c = 0; c < columns; ++c) {
    const float d = to_float(dy[c]);
    dscale[c] += d * ((to_float(x[c]) - mean) * slope);
    dshift[c] += d;
  }
}

/// Columns that a thread takes at a time: a cache line.
inline constexpr std::int64_t column_strip = 16;

/// LayerNorm by own passes. The bits do not depend on the threads.
class CpuLayerNorm : public LayerNorm {
 public:
  CpuLayerNorm(int threads, Precision precision, const LayerNormSpec& spec)
      : threads_(threads),
        precision_(precision),
        spec_(spec),
        means_(static_cast<std::size_t>(spec.rows)),
        slopes_(static_cast<std::size_t>(spec.rows)) {
    check_spec(spec);
  }
  void forward(const Tensor& x, ScaleShift w, Tensor& y) override {
    check_layer_norm(spec_, {&x, &y}, w);
    with_values(precision_, [&]<class T>(T) {
      const T* const from = values_as<T>(x).address();
      T* const to = values_as<T>(y).address();
      in_parts(threads_for(threads_, spec_.rows * spec_.columns), spec_.rows,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t row = first; row < last; ++row) {
                   const auto n = static_cast<std::size_t>(row);
                   normalise_row(spec_.columns, spec_.epsilon, w.first.address(), w.second.address(),
                                 from + row * spec_.columns, to + row * spec_.columns, means_[n], slopes_[n]);
                 }
               });
    });
  }
  void backward(const Tensor& x, ScaleShift w, const Tensor& dy, ScaleShiftGradients gradients,
                Tensor& dx) override {
    check_layer_norm(spec_, {&x, &dy, &dx}, w);
    check_layer_norm(spec_, {}, gradients);
    const std::int64_t threads = threads_for(threads_, spec_.rows * spec_.columns);
    with_values(precision_, [&]<class T>(T) {
      const T* const input = values_as<T>(x).address();
      const T* const gradient = values_as<T>(dy).address();
      T* const to = values_as<T>(dx).address();
      // Threads take strips of columns, so that the sum of a column has one order; before dx, which may be
      // dy.
      in_parts(threads, (spec_.columns + column_strip - 1) / column_strip,
               [&](std::int64_t first, std::int64_t last) {
                 const std::int64_t begin = first * column_strip;
                 const std::int64_t width = std::min(last * column_strip, spec_.columns) - begin;
                 float* const dscale = gradients.first.address() + begin;
                 float* const dshift = gradients.second.address() + begin;
                 if (!spec_.accumulate) {
                   std::fill_n(dscale, width, 0.0F);
                   std::fill_n(dshift, width, 0.0F);
                 }
                 for (std::int64_t row = 0; row < spec_.rows; ++row) {
                   const auto n = static_cast<std::size_t>(row);
                   const std::int64_t at = row * spec_.columns + begin;
                   add_row(width, input + at, gradient + at, means_[n], slopes_[n], dscale, dshift);
                 }
               });
      in_parts(threads, spec_.rows, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t row = first; row < last; ++row) {
          const auto n = static_cast<std::size_t>(row);
          const std::int64_t at = row * spec_.columns;
          differentiate_row(spec_.columns, w.first.address(), input + at, gradient + at, means_[n],
                            slopes_[n], to + at);
        }
      });
    });
  }

 private:
  int threads_;
  Precision precision_;
  LayerNormSpec spec_;
  std::vector<float> means_;   // of the rows of the last forward pass
  std::vector<float> slopes_;  // 1 / √(variance + ε)
};

}  // namespace flotilla
