// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <span>
#include <utility>
#include <vector>

#include "kernels/host_batch.hpp"
#include "kernels/layers/layer_norm.hpp"
#include "kernels/layers/linear.hpp"
#include "kernels/layers/output_loss.hpp"
#include "kernels/layers/softmax_loss.hpp"

/// Every operation as the plainest loop, computed in double whatever the storage T (float, or double in tests
/// of gradients). Weights are plain (O,I).
namespace flotilla::reference {

/// Φ(z), the distribution function of the normal distribution.
inline double normal_distribution(double z) {
  return 0.5 * std::erfc(-z / std::numbers::sqrt2);
}

inline double activation_value(Activation f, double z) {
  switch (f) {
    case Activation::identity: return z;
    case Activation::relu: return z < 0.0 ? 0.0 : z;  // NaN stays NaN
    case Activation::tanh: return std::tanh(z);
    case Activation::sigmoid: return 1.0 / (1.0 + std::exp(-z));
    case Activation::gelu: return z * normal_distribution(z);
    case Activation::silu: return z / (1.0 + std::exp(-z));
  }
  return z;
}

/// f'(z) from y = f(z), where has_slope_of_value(f).
inline double activation_slope(Activation f, double y) {
  switch (f) {
    case Activation::relu: return y > 0.0 ? 1.0 : 0.0;
    case Activation::tanh: return 1.0 - y * y;
    case Activation::sigmoid: return y * (1.0 - y);
    default: return 1.0;
  }
}

/// f'(z).
inline double activation_slope_at(Activation f, double z) {
  if (f == Activation::gelu)
    return normal_distribution(z) +
           z * std::exp(-0.5 * z * z) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  if (f == Activation::silu) {
    const double sigmoid = 1.0 / (1.0 + std::exp(-z));
    return sigmoid * (1.0 + z * (1.0 - sigmoid));
  }
  return activation_slope(f, activation_value(f, z));
}

/// y = f(x).
template <class T>
void elementwise_forward(Activation f, std::span<const T> x, std::span<T> y) {
  for (std::size_t k = 0; k < x.size(); ++k) y[k] = static_cast<T>(activation_value(f, double{x[k]}));
}

/// dx = dy · f'(x).
template <class T>
void elementwise_backward(Activation f, std::span<const T> x, std::span<const T> dy, std::span<T> dx) {
  for (std::size_t k = 0; k < x.size(); ++k)
    dx[k] = static_cast<T>(double{dy[k]} * activation_slope_at(f, double{x[k]}));
}

inline std::size_t at(std::int64_t row, std::int64_t columns, std::int64_t column) {
  return static_cast<std::size_t>(row * columns + column);
}

/// Scaled, and from (N,H,W,C) to (N,C,H,W). In float: the bits of a data set that scales by itself.
inline void scale_bytes(const ByteImages& images, std::span<float> to) {
  const auto channels = static_cast<std::size_t>(images.shape[1]);
  const auto pixels = static_cast<std::size_t>(images.shape[2] * images.shape[3]);
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::size_t pixel = i % pixels;
    const std::size_t channel = i / pixels % channels;
    const std::size_t image = i / pixels / channels;
    const auto byte = static_cast<float>(images.pixels[(image * pixels + pixel) * channels + channel]);
    to[i] = byte * images.scaling.factor[channel] + images.scaling.offset[channel];
  }
}

/// y (N,O) = f(x (N,I) · wᵀ + b).  w (O,I), b (O) or empty.
template <class T>
void linear_forward(const LinearSpec& s, std::span<const T> x, std::span<const T> w, std::span<const T> b,
                    std::span<T> y) {
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t o = 0; o < s.out; ++o) {
      double sum = b.empty() ? 0.0 : double{b[at(0, 0, o)]};
      for (std::int64_t i = 0; i < s.in; ++i) sum += double{x[at(n, s.in, i)]} * double{w[at(o, s.in, i)]};
      y[at(n, s.out, o)] = static_cast<T>(activation_value(s.activation, sum));
    }
  }
}

/// dy becomes the gradient of the sum before the activation, whose result is y.
template <class T>
void activation_backward(Activation f, std::span<const T> y, std::span<T> dy) {
  for (std::size_t k = 0; k < y.size(); ++k)
    dy[k] = static_cast<T>(double{dy[k]} * activation_slope(f, double{y[k]}));
}

/// dy (N,O) becomes the gradient of the sum before the activation; dw (O,I), db (O) or empty, dx (N,I) or
/// empty.
template <class T>
void linear_backward(const LinearSpec& s, std::span<const T> x, std::span<const T> y, std::span<const T> w,
                     std::span<T> dy, std::span<T> dw, std::span<T> db, std::span<T> dx) {
  activation_backward(s.activation, y, dy);
  for (std::int64_t o = 0; o < s.out; ++o) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      double sum = s.accumulate ? double{dw[at(o, s.in, i)]} : 0.0;
      for (std::int64_t n = 0; n < s.batch; ++n)
        sum += double{dy[at(n, s.out, o)]} * double{x[at(n, s.in, i)]};
      dw[at(o, s.in, i)] = static_cast<T>(sum);
    }
    if (db.empty()) continue;
    double sum = s.accumulate ? double{db[at(0, 0, o)]} : 0.0;
    for (std::int64_t n = 0; n < s.batch; ++n) sum += double{dy[at(n, s.out, o)]};
    db[at(0, 0, o)] = static_cast<T>(sum);
  }
  if (dx.empty()) return;
  for (std::int64_t n = 0; n < s.batch; ++n) {
    for (std::int64_t i = 0; i < s.in; ++i) {
      double sum = 0.0;
      for (std::int64_t o = 0; o < s.out; ++o) sum += double{dy[at(n, s.out, o)]} * double{w[at(o, s.in, i)]};
      dx[at(n, s.in, i)] = static_cast<T>(sum);
    }
  }
}

/// Mean and 1 / √(variance + ε) of a row.
template <class T>
std::pair<double, double> moments_of_row(const LayerNormSpec& s, std::span<const T> x, std::int64_t row) {
  const auto columns = static_cast<double>(s.columns);
  double mean = 0.0;
  for (std::int64_t c = 0; c < s.columns; ++c) mean += double{x[at(row, s.columns, c)]} / columns;
  double variance = 0.0;
  for (std::int64_t c = 0; c < s.columns; ++c)
    variance += std::pow(double{x[at(row, s.columns, c)]} - mean, 2.0) / columns;
  return {mean, 1.0 / std::sqrt(variance + double{s.epsilon})};
}

/// y (N,C) of x (N,C), scale and shift (C).
template <class T>
void layer_norm_forward(const LayerNormSpec& s, std::span<const T> x, std::span<const T> scale,
                        std::span<const T> shift, std::span<T> y) {
  for (std::int64_t n = 0; n < s.rows; ++n) {
    const auto [mean, slope] = moments_of_row(s, x, n);
    for (std::int64_t c = 0; c < s.columns; ++c) {
      const double normal = (double{x[at(n, s.columns, c)]} - mean) * slope;
      y[at(n, s.columns, c)] =
          static_cast<T>(double{scale[at(0, 0, c)]} * normal + double{shift[at(0, 0, c)]});
    }
  }
}

/// dx may be dy.
template <class T>
void layer_norm_backward(const LayerNormSpec& s, std::span<const T> x, std::span<const T> scale,
                         std::span<const T> dy, std::span<T> dscale, std::span<T> dshift, std::span<T> dx) {
  std::vector<double> products(static_cast<std::size_t>(s.columns));
  std::vector<double> sums(products.size());
  for (std::int64_t n = 0; n < s.rows; ++n) {
    const auto [mean, slope] = moments_of_row(s, x, n);
    const auto normal = [&, m = mean, r = slope](std::int64_t c) {
      return (double{x[at(n, s.columns, c)]} - m) * r;
    };
    const auto g = [&](std::int64_t c) {
      return double{scale[at(0, 0, c)]} * double{dy[at(n, s.columns, c)]};
    };
    double mean_g = 0.0;
    double mean_product = 0.0;
    for (std::int64_t c = 0; c < s.columns; ++c) {
      mean_g += g(c) / static_cast<double>(s.columns);
      mean_product += g(c) * normal(c) / static_cast<double>(s.columns);
      products[at(0, 0, c)] += double{dy[at(n, s.columns, c)]} * normal(c);
      sums[at(0, 0, c)] += double{dy[at(n, s.columns, c)]};
    }
    for (std::int64_t c = 0; c < s.columns; ++c)
      dx[at(n, s.columns, c)] = static_cast<T>(slope * (g(c) - mean_g - normal(c) * mean_product));
  }
  for (std::size_t c = 0; c < products.size(); ++c) {
    dscale[c] = static_cast<T>((s.accumulate ? double{dscale[c]} : 0.0) + products[c]);
    dshift[c] = static_cast<T>((s.accumulate ? double{dshift[c]} : 0.0) + sums[c]);
  }
}

/// log Σ_c exp(row[c]).
template <class T>
double log_sum_exp(std::span<const T> row) {
  const double highest = double{*std::max_element(row.begin(), row.end())};
  double sum = 0.0;
  for (const T value : row) sum += std::exp(double{value} - highest);
  return highest + std::log(sum);
}

/// Adds to sums as Loss::forward does. logits (N,C).
template <class T>
void softmax_loss_forward(const SoftmaxLossSpec& s, std::span<const T> logits, const Targets& targets,
                          std::span<T> sums) {
  const double smoothing = double{s.label_smoothing};
  double loss = 0.0;
  double weights = 0.0;
  std::int64_t top1 = 0;
  std::int64_t top5 = 0;
  for (std::int64_t n = 0; n < targets.valid; ++n) {
    const std::span<const T> row = logits.subspan(at(n, s.classes, 0), static_cast<std::size_t>(s.classes));
    const auto label = static_cast<std::size_t>(targets.labels[at(0, 0, n)]);
    double mean = 0.0;
    std::int64_t before = 0;  // classes that come before the label in order of falling logits
    for (std::size_t c = 0; c < row.size(); ++c) {
      mean += double{row[c]} / static_cast<double>(s.classes);
      if (row[c] > row[label] || (row[c] == row[label] && c < label)) ++before;
    }
    double wanted = double{row[label]};
    if (targets.other_share > 0.0F) {
      const auto other = static_cast<std::size_t>(targets.other_labels[at(0, 0, n)]);
      wanted += double{targets.other_share} * (double{row[other]} - double{row[label]});
    }
    const double weight = double{s.weight(targets.labels[at(0, 0, n)])};
    loss += weight * (log_sum_exp(row) - (1.0 - smoothing) * wanted - smoothing * mean);
    weights += weight;
    const bool number = row[label] == row[label];
    if (number && before < 1) ++top1;
    if (number && before < 5) ++top5;
  }
  sums[sum_loss] += static_cast<T>(loss);
  sums[sum_top1] += static_cast<T>(top1);
  sums[sum_top5] += static_cast<T>(top5);
  sums[sum_samples] += static_cast<T>(targets.valid);
  sums[sum_weights] += static_cast<T>(weights);
}

/// dlogits (N,C) = weight · scale · (softmax(logits) − target), zero from row `valid` on. May be in place.
template <class T>
void softmax_loss_backward(const SoftmaxLossSpec& s, std::span<const T> logits, const Targets& targets,
                           double scale, std::span<T> dlogits) {
  const double smoothing = double{s.label_smoothing};
  const double everywhere = smoothing / static_cast<double>(s.classes);
  for (std::int64_t n = 0; n < targets.valid; ++n) {
    const std::span<const T> row = logits.subspan(at(n, s.classes, 0), static_cast<std::size_t>(s.classes));
    const double normaliser = log_sum_exp(row);
    for (std::int64_t c = 0; c < s.classes; ++c) {
      double wanted = c == targets.labels[at(0, 0, n)] ? 1.0 - double{targets.other_share} : 0.0;
      if (targets.other_share > 0.0F && c == targets.other_labels[at(0, 0, n)])
        wanted += double{targets.other_share};
      const double target = everywhere + (1.0 - smoothing) * wanted;
      const double probability = std::exp(double{row[at(0, 0, c)]} - normaliser);
      dlogits[at(n, s.classes, c)] =
          static_cast<T>(double{s.weight(targets.labels[at(0, 0, n)])} * scale * (probability - target));
    }
  }
  const auto padding = static_cast<std::size_t>(targets.valid * s.classes);
  std::fill(dlogits.begin() + static_cast<std::ptrdiff_t>(padding), dlogits.end(), T{0});
}

/// The loss of one output, by the definition of each kind.
inline double output_loss_value(const OutputLoss& f, double y, double t) {
  const double delta = double{f.delta};
  switch (f.kind) {
    case OutputLoss::Kind::mse: return (y - t) * (y - t);
    case OutputLoss::Kind::mae: return std::abs(y - t);
    case OutputLoss::Kind::huber:
      return std::abs(y - t) <= delta ? (y - t) * (y - t) / 2.0 : delta * (std::abs(y - t) - delta / 2.0);
    case OutputLoss::Kind::binary: break;
  }
  // softplus(y) − y t, softplus(y) = ln(1 + exp(y)).
  return (y > 0.0 ? y + std::log1p(std::exp(-y)) : std::log1p(std::exp(y))) - y * t;
}

/// Its derivative by y.
inline double output_loss_slope_at(const OutputLoss& f, double y, double t) {
  const double delta = double{f.delta};
  const double error = y - t;
  switch (f.kind) {
    case OutputLoss::Kind::mse: return 2.0 * error;
    case OutputLoss::Kind::mae: return error == 0.0 ? 0.0 : error / std::abs(error);
    case OutputLoss::Kind::huber: return std::abs(error) > delta ? delta * error / std::abs(error) : error;
    case OutputLoss::Kind::binary: break;
  }
  return 1.0 / (1.0 + std::exp(-y)) - t;
}

/// Adds to sums as Loss::forward does. outputs (N,O).
template <class T>
void output_loss_forward(const OutputLossSpec& s, std::span<const T> outputs, const Targets& targets,
                         std::span<T> sums) {
  double loss = 0.0;
  for (std::size_t k = 0; k < at(targets.valid, s.outputs, 0); ++k)
    loss += output_loss_value(s.function, double{outputs[k]}, double{targets.values[k]});
  sums[sum_loss] += static_cast<T>(loss / static_cast<double>(s.outputs));
  sums[sum_samples] += static_cast<T>(targets.valid);
  sums[sum_weights] += static_cast<T>(targets.valid);
}

/// gradient (N,O) of scale · the losses, zero from row `valid` on. May be in place.
template <class T>
void output_loss_backward(const OutputLossSpec& s, std::span<const T> outputs, const Targets& targets,
                          double scale, std::span<T> gradient) {
  const std::size_t counted = at(targets.valid, s.outputs, 0);
  for (std::size_t k = 0; k < counted; ++k)
    gradient[k] =
        static_cast<T>(scale / static_cast<double>(s.outputs) *
                       output_loss_slope_at(s.function, double{outputs[k]}, double{targets.values[k]}));
  std::fill(gradient.begin() + static_cast<std::ptrdiff_t>(counted), gradient.end(), T{0});
}

}  // namespace flotilla::reference
