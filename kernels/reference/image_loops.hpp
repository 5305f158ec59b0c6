// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernels/layers/batch_norm.hpp"
#include "kernels/layers/conv2d.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/layers/pool2d.hpp"

/// The operations on images as the plainest loops, computed in double whatever the storage T. All plain.
namespace flotilla::reference {

/// The index of (n,c,h,w) in a plain tensor.
inline std::size_t pixel(const Shape& s, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  return static_cast<std::size_t>(((n * s[1] + c) * s[2] + h) * s[3] + w);
}

/// Calls body(x index, w index, y index) for every product of the convolution.
template <class Body>
void for_each_product(const Conv2dSpec& s, const Body& body) {
  const Shape output = output_shape(s);
  const std::int64_t in = s.input[1] / s.groups;
  const std::int64_t out = s.out_channels / s.groups;
  const Shape weight{s.out_channels, in, s.kernel, s.kernel};
  for (std::int64_t n = 0; n < output[0]; ++n) {
    for (std::int64_t o = 0; o < output[1]; ++o) {
      for (std::int64_t p = 0; p < output[2]; ++p) {
        for (std::int64_t q = 0; q < output[3]; ++q) {
          for (std::int64_t i = 0; i < in; ++i) {
            for (std::int64_t kh = 0; kh < s.kernel; ++kh) {
              for (std::int64_t kw = 0; kw < s.kernel; ++kw) {
                const std::int64_t h = p * s.stride + kh - s.padding;
                const std::int64_t w = q * s.stride + kw - s.padding;
                if (h < 0 || h >= s.input[2] || w < 0 || w >= s.input[3]) continue;
                body(pixel(s.input, n, o / out * in + i, h, w), pixel(weight, o, i, kh, kw),
                     pixel(output, n, o, p, q));
              }
            }
          }
        }
      }
    }
  }
}

template <class T>
void store(const std::vector<double>& sums, std::span<T> to, bool accumulate = false) {
  for (std::size_t i = 0; i < sums.size(); ++i)
    to[i] = static_cast<T>(sums[i] + (accumulate ? double{to[i]} : 0.0));
}

template <class T>
void conv2d_forward(const Conv2dSpec& s, std::span<const T> x, std::span<const T> w, std::span<const T> b,
                    std::span<T> y) {
  std::vector<double> sums(static_cast<std::size_t>(output_shape(s).size()), 0.0);
  for_each_product(
      s, [&](std::size_t i, std::size_t k, std::size_t o) { sums[o] += double{x[i]} * double{w[k]}; });
  const Shape output = output_shape(s);
  const auto image = static_cast<std::size_t>(output[2] * output[3]);
  for (std::size_t o = 0; o < sums.size() && !b.empty(); ++o) sums[o] += double{b[o / image % b.size()]};
  store(sums, y);
}

template <class T>
void conv2d_backward_data(const Conv2dSpec& s, std::span<const T> dy, std::span<const T> w, std::span<T> dx) {
  std::vector<double> sums(static_cast<std::size_t>(s.input.size()), 0.0);
  for_each_product(
      s, [&](std::size_t i, std::size_t k, std::size_t o) { sums[i] += double{dy[o]} * double{w[k]}; });
  store(sums, dx);
}

template <class T>
void conv2d_backward_weights(const Conv2dSpec& s, std::span<const T> x, std::span<const T> dy,
                             std::span<T> dw, std::span<T> db) {
  std::vector<double> sums(dw.size(), 0.0);
  for_each_product(
      s, [&](std::size_t i, std::size_t k, std::size_t o) { sums[k] += double{x[i]} * double{dy[o]}; });
  store(sums, dw, s.accumulate);
  const Shape output = output_shape(s);
  const auto image = static_cast<std::size_t>(output[2] * output[3]);
  std::vector<double> biases(db.size(), 0.0);
  for (std::size_t o = 0; o < dy.size() && !db.empty(); ++o) biases[o / image % db.size()] += double{dy[o]};
  store(biases, db, s.accumulate);
}

/// Calls body(index, channel) for every value of the input.
template <class Body>
void for_each_value(const Shape& s, const Body& body) {
  for (std::int64_t i = 0; i < s.size(); ++i)
    body(static_cast<std::size_t>(i), static_cast<std::size_t>(i / (s[2] * s[3]) % s[1]));
}

template <class T>
void batch_statistics(const BatchNormSpec& s, std::span<const T> x, std::span<T> mean,
                      std::span<T> variance) {
  const double count = static_cast<double>(s.input.size() / s.input[1]);
  std::vector<double> means(mean.size(), 0.0);
  std::vector<double> variances(mean.size(), 0.0);
  for_each_value(s.input, [&](std::size_t i, std::size_t c) { means[c] += double{x[i]} / count; });
  for_each_value(s.input, [&](std::size_t i, std::size_t c) {
    variances[c] += (double{x[i]} - means[c]) * (double{x[i]} - means[c]) / count;
  });
  store(means, mean);
  store(variances, variance);
}

/// The values per channel that batch norm reads.
template <class T>
struct Channels {
  std::span<const T> scale, shift, mean, variance;
  double slope(const BatchNormSpec& s, std::size_t c) const {
    return 1.0 / std::sqrt(double{variance[c]} + double{s.epsilon});
  }
};

/// `residual` may be empty.
template <class T>
void batch_norm_forward(const BatchNormSpec& s, std::span<const T> x, std::span<const T> residual,
                        const Channels<T>& of, std::span<T> y) {
  for_each_value(s.input, [&](std::size_t i, std::size_t c) {
    double z =
        double{of.scale[c]} * (double{x[i]} - double{of.mean[c]}) * of.slope(s, c) + double{of.shift[c]};
    if (!residual.empty()) z += double{residual[i]};
    y[i] = static_cast<T>(s.after != AfterNorm::nothing && z < 0.0 ? 0.0 : z);  // NaN stays NaN
  });
}

/// more_dy and dresidual may be empty.
template <class T>
void batch_norm_backward_sums(const BatchNormSpec& s, std::span<const T> x, std::span<const T> y,
                              const Channels<T>& of, std::span<const T> dy, std::span<const T> more_dy,
                              std::span<T> dresidual, std::span<T> sum_scale, std::span<T> sum_shift) {
  std::vector<double> scales(sum_scale.size(), 0.0);
  std::vector<double> shifts(sum_shift.size(), 0.0);
  for_each_value(s.input, [&](std::size_t i, std::size_t c) {
    double dz = double{dy[i]} + (more_dy.empty() ? 0.0 : double{more_dy[i]});
    if (s.after != AfterNorm::nothing && !(double{y[i]} > 0.0)) dz = 0.0;
    if (!dresidual.empty()) dresidual[i] = static_cast<T>(dz);
    scales[c] += dz * (double{x[i]} - double{of.mean[c]}) * of.slope(s, c);
    shifts[c] += dz;
  });
  store(scales, sum_scale);
  store(shifts, sum_shift);
}

/// With relu the mask is computed from x again; with add_relu dy is masked already.
template <class T>
void batch_norm_backward_data(const BatchNormSpec& s, std::span<const T> x, const Channels<T>& of,
                              std::span<const T> sum_scale, std::span<const T> sum_shift, double count,
                              std::span<const T> dy, std::span<T> dx) {
  for_each_value(s.input, [&](std::size_t i, std::size_t c) {
    const double slope = of.slope(s, c);
    const double normal = (double{x[i]} - double{of.mean[c]}) * slope;
    double dz = double{dy[i]};
    if (s.after == AfterNorm::relu && !(double{of.scale[c]} * normal + double{of.shift[c]} > 0.0)) dz = 0.0;
    dx[i] = static_cast<T>(double{of.scale[c]} * slope *
                           (dz - (double{sum_shift[c]} + normal * double{sum_scale[c]}) / count));
  });
}

/// Calls body(x index, y index, window's number) for every value in every window, window after window.
template <class Body>
void for_each_in_windows(const Pool2dSpec& s, const Body& body) {
  const Shape output = output_shape(s);
  const bool global = s.kind == Pooling::global_average;
  const std::int64_t kernel_h = global ? s.input[2] : s.kernel;
  const std::int64_t kernel_w = global ? s.input[3] : s.kernel;
  const std::int64_t padding = global ? 0 : s.padding;
  for (std::int64_t o = 0; o < output.size(); ++o) {
    const std::int64_t image = o / (output[2] * output[3]);
    const std::int64_t top = o / output[3] % output[2] * s.stride - padding;
    const std::int64_t left = o % output[3] * s.stride - padding;
    for (std::int64_t h = top; h < top + kernel_h; ++h) {
      for (std::int64_t w = left; w < left + kernel_w; ++w) {
        if (h < 0 || h >= s.input[2] || w < 0 || w >= s.input[3]) continue;
        body(pixel(s.input, 0, image, h, w), static_cast<std::size_t>(o));
      }
    }
  }
}

/// The divisor of each window's sum.
inline std::vector<double> window_sizes(const Pool2dSpec& s) {
  std::vector<double> sizes(static_cast<std::size_t>(output_shape(s).size()), 0.0);
  if (s.kind == Pooling::average_including_padding) {
    sizes.assign(sizes.size(), static_cast<double>(s.kernel * s.kernel));
  } else {
    for_each_in_windows(s, [&](std::size_t, std::size_t o) { sizes[o] += 1.0; });
  }
  return sizes;
}

/// `chosen` (one for each value of y): with max, where in x the largest value is. NaN is larger than all.
template <class T>
void pool2d_forward(const Pool2dSpec& s, std::span<const T> x, std::span<T> y,
                    std::span<std::size_t> chosen) {
  const std::vector<double> sizes = window_sizes(s);
  std::vector<double> values(sizes.size(), 0.0);
  if (s.kind == Pooling::max) {
    values.assign(sizes.size(), -std::numeric_limits<double>::infinity());
    std::vector<char> any(sizes.size(), 0);
    for_each_in_windows(s, [&](std::size_t i, std::size_t o) {
      const double value = double{x[i]};
      if (any[o] != 0 && !(value > values[o]) && !(std::isnan(value) && !std::isnan(values[o]))) return;
      any[o] = 1;
      values[o] = value;
      chosen[o] = i;
    });
  } else {
    for_each_in_windows(s, [&](std::size_t i, std::size_t o) { values[o] += double{x[i]} / sizes[o]; });
  }
  store(values, y);
}

template <class T>
void pool2d_backward(const Pool2dSpec& s, std::span<const T> dy, std::span<const std::size_t> chosen,
                     std::span<T> dx) {
  std::vector<double> sums(dx.size(), 0.0);
  if (s.kind == Pooling::max) {
    for (std::size_t o = 0; o < dy.size(); ++o) sums[chosen[o]] += double{dy[o]};
  } else {
    const std::vector<double> sizes = window_sizes(s);
    for_each_in_windows(s, [&](std::size_t i, std::size_t o) { sums[i] += double{dy[o]} / sizes[o]; });
  }
  store(sums, dx);
}

}  // namespace flotilla::reference
