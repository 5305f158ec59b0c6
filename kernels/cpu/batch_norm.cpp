// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/batch_norm.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/bfloat16_values.hpp"
#include "kernels/error.hpp"
#include "kernels/flat/host_flat.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

const BatchNormSpec& checked(const BatchNormSpec& spec) {
  check_spec(spec);
  return spec;
}

/// Calls body(channel) for the channels of the blocks.
template <class Body>
void for_each_channel(const ImageLayout& layout, BlockRange blocks, const Body& body) {
  for (std::int64_t c = blocks.begin * layout.lanes; c < blocks.end * layout.lanes; ++c)
    body(static_cast<std::size_t>(c));
}

template <class T>
const T* address(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : values_as<T>(*tensor).address();
}

}  // namespace

template <class T>
CpuBatchNorm<T>::CpuBatchNorm(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                              const BatchNormSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      layout_(layouts.of(spec.input)),
      factors_(channels()),
      constants_(channels()),
      slopes_(channels()),
      local_sums_(2 * channels()) {
  scope_->reserve(2 * sizeof(double) * static_cast<std::size_t>(layout_.images) * channels());
}

template <class T>
void CpuBatchNorm<T>::check(const char* name, const Tensor& tensor) const {
  check_image(name, tensor, spec_.input, layout_);
}

template <class T>
double CpuBatchNorm<T>::slope(GivenStatistics s, std::size_t channel) const {
  return 1.0 / std::sqrt(double{s.second.address()[channel]} + double{spec_.epsilon});
}

template <class T>
ImageSums CpuBatchNorm<T>::image_sums() const {
  auto* const sums = reinterpret_cast<double*>(scope_->scratch());
  return {sums, sums + layout_.images * layout_.channels};
}

/// Calls body(blocks) for groups of blocks so small that `tensors` tensors of a group fit into a share of the
/// last-level cache.
template <class T>
template <class Body>
void CpuBatchNorm<T>::for_each_group(int tensors, const Body& body) const {
  constexpr std::int64_t share = 8 << 20;  // bytes
  const std::int64_t bytes =
      layout_.images * layout_.pixels * layout_.lanes * tensors * static_cast<std::int64_t>(sizeof(T));
  const std::int64_t group = std::max<std::int64_t>(1, share / bytes);
  for (std::int64_t begin = 0; begin < layout_.blocks; begin += group)
    body(BlockRange{begin, std::min(begin + group, layout_.blocks)});
}

template <class T>
NormChannels CpuBatchNorm<T>::prepare(BlockRange blocks, ScaleShift w, GivenStatistics s) {
  for_each_channel(layout_, blocks, [&](std::size_t c) {
    factors_[c] = static_cast<float>(double{w.first.address()[c]} * slope(s, c));
  });
  return {s.first.address(), factors_.data(), w.second.address()};
}

template <class T>
void CpuBatchNorm<T>::find_statistics(BlockRange blocks, const Tensor& x, Statistics batch) {
  const ImageSums sums = image_sums();
  image_statistics(scope_->threads(), layout_, blocks, values_as<T>(x).address(), sums);
  const auto images = static_cast<std::size_t>(layout_.images);
  for_each_channel(layout_, blocks, [&](std::size_t c) {
    double mean = 0.0;
    for (std::size_t n = 0; n < images; ++n) mean += sums.first[n * channels() + c];
    mean /= static_cast<double>(images);
    double squares = 0.0;
    for (std::size_t n = 0; n < images; ++n) {
      const double difference = sums.first[n * channels() + c] - mean;
      squares +=
          sums.second[n * channels() + c] + static_cast<double>(layout_.pixels) * difference * difference;
    }
    batch.first.address()[c] = static_cast<float>(mean);
    batch.second.address()[c] =
        static_cast<float>(squares / static_cast<double>(layout_.images * layout_.pixels));
  });
}

template <class T>
void CpuBatchNorm<T>::find_sums(BlockRange blocks, const NormGradient<T>& in, ScaleShift w, GivenStatistics s,
                                Tensor* dresidual, ScaleShiftGradients sums) {
  const ImageSums parts = image_sums();
  image_gradient_sums(scope_->threads(), layout_, blocks, spec_.after, in, prepare(blocks, w, s),
                      dresidual == nullptr ? nullptr : values_as<T>(*dresidual).address(), parts);
  for_each_channel(layout_, blocks, [&](std::size_t c) {
    double scale = 0.0;
    double shift = 0.0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(layout_.images); ++n) {
      scale += parts.first[n * channels() + c];
      shift += parts.second[n * channels() + c];
    }
    sums.first.address()[c] = static_cast<float>(scale * slope(s, c));
    sums.second.address()[c] = static_cast<float>(shift);
  });
}

template <class T>
void CpuBatchNorm<T>::find_gradient(BlockRange blocks, const Tensor& x, ScaleShift w, GivenStatistics s,
                                    GivenStatistics sums, double count, const Tensor& dy, Tensor& dx) {
  for_each_channel(layout_, blocks, [&](std::size_t c) {
    constants_[c] = static_cast<float>(double{sums.second.address()[c]} / count);
    slopes_[c] = static_cast<float>(double{sums.first.address()[c]} * slope(s, c) / count);
  });
  normalise_backward(scope_->threads(), layout_, blocks, spec_.after, values_as<T>(x).address(),
                     values_as<T>(dy).address(), prepare(blocks, w, s), constants_.data(), slopes_.data(),
                     values_as<T>(dx).address());
}

template <class T>
void CpuBatchNorm<T>::check_operands(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                                     const Tensor& y) const {
  check_normalise(spec_, x, residual, w, s, y);
  check("x", x);
  check("y", y);
  if (residual != nullptr) check("the residual", *residual);
}

template <class T>
void CpuBatchNorm<T>::find_output(BlockRange blocks, const Tensor& x, const Tensor* residual, ScaleShift w,
                                  GivenStatistics s, Tensor& y) {
  normalise_pixels(scope_->threads(), layout_, blocks, spec_.after, values_as<T>(x).address(),
                   address<T>(residual), prepare(blocks, w, s), values_as<T>(y).address());
}

template <class T>
void CpuBatchNorm<T>::forward(const Tensor& x, const Tensor* residual, ScaleShift w, Statistics batch,
                              const RunningStatistics& running, Tensor& y) {
  check_operands(x, residual, w, batch, y);
  for_each_group(1, [&](BlockRange blocks) {
    find_statistics(blocks, x, batch);
    find_output(blocks, x, residual, w, batch, y);
  });
  HostFlat flat(scope_->threads());
  update_running_statistics(flat, batch, layout_.images * layout_.pixels, running);
}

template <class T>
void CpuBatchNorm<T>::statistics(const Tensor& x, Statistics batch) {
  check("x", x);
  check_channels("mean and variance", spec_, batch);
  find_statistics(all(), x, batch);
}

template <class T>
void CpuBatchNorm<T>::normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                                Tensor& y) {
  check_operands(x, residual, w, s, y);
  find_output(all(), x, residual, w, s, y);
}

template <class T>
void CpuBatchNorm<T>::check_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s,
                                 const Tensor& dy, const Tensor* more_dy, const Tensor* dresidual,
                                 GivenStatistics sums) const {
  check_backward_sums(spec_, x, y, w, s, dy, more_dy, dresidual, sums);
  check("x", x);
  check("y", y);
  check("dy", dy);
  if (more_dy != nullptr) check("the second dy", *more_dy);
  if (dresidual != nullptr) check("dresidual", *dresidual);
}

template <class T>
void CpuBatchNorm<T>::backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s,
                                    const Tensor& dy, const Tensor* more_dy, Tensor* dresidual,
                                    ScaleShiftGradients sums) {
  check_sums(x, y, w, s, dy, more_dy, dresidual, sums);
  find_sums(
      all(),
      {values_as<T>(x).address(), values_as<T>(y).address(), values_as<T>(dy).address(), address<T>(more_dy)},
      w, s, dresidual, sums);
}

template <class T>
void CpuBatchNorm<T>::backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums,
                                    double count, const Tensor& dy, Tensor& dx) {
  check_backward_data(spec_, x, w, s, sums, count, dy, dx);
  check("x", x);
  check("dy", dy);
  check("dx", dx);
  find_gradient(all(), x, w, s, sums, count, dy, dx);
}

template <class T>
void CpuBatchNorm<T>::backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s,
                               const Tensor& dy, const Tensor* more_dy, ScaleShiftGradients gradients,
                               Tensor& dx, Tensor* dresidual) {
  check_sums(x, y, w, s, dy, more_dy, dresidual, gradients);
  check_image("dx", dx, spec_.input, layout_);
  const ScaleShiftGradients sums{{local_sums_.data(), channels()},
                                 {local_sums_.data() + channels(), channels()}};
  const auto count = static_cast<double>(layout_.images * layout_.pixels);
  const NormGradient<T> in{values_as<T>(x).address(), values_as<T>(y).address(), values_as<T>(dy).address(),
                           address<T>(more_dy)};
  for_each_group(2, [&](BlockRange blocks) {
    find_sums(blocks, in, w, s, dresidual, sums);
    find_gradient(blocks, x, w, s, sums, count, dresidual == nullptr ? dy : *dresidual, dx);
  });
  for (std::size_t c = 0; c < channels(); ++c) {
    float& scale = gradients.first.address()[c];
    float& shift = gradients.second.address()[c];
    scale = (spec_.accumulate ? scale : 0.0F) + sums.first.address()[c];
    shift = (spec_.accumulate ? shift : 0.0F) + sums.second.address()[c];
  }
}

template class CpuBatchNorm<float>;
template class CpuBatchNorm<Bfloat16>;

}  // namespace flotilla
