// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/cpu_batch_norm.hpp"

#include <cmath>

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

const BatchNormSpec& checked(const BatchNormSpec& spec) {
  check_spec(spec);
  return spec;
}

const float* address(const Tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->span().address();
}

}  // namespace

CpuBatchNorm::CpuBatchNorm(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
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

void CpuBatchNorm::check(const char* name, const Tensor& tensor) const {
  check_image(name, tensor, spec_.input, layout_);
}

double CpuBatchNorm::slope(GivenStatistics s, std::size_t channel) const {
  return 1.0 / std::sqrt(double{s.second.address()[channel]} + double{spec_.epsilon});
}

NormChannels CpuBatchNorm::prepare(ScaleShift w, GivenStatistics s) {
  for (std::size_t c = 0; c < channels(); ++c)
    factors_[c] = static_cast<float>(double{w.first.address()[c]} * slope(s, c));
  return {s.first.address(), factors_.data(), w.second.address()};
}

ImageSums CpuBatchNorm::image_sums() const {
  auto* const sums = reinterpret_cast<double*>(scope_->scratch());
  return {sums, sums + layout_.images * layout_.channels};
}

void CpuBatchNorm::statistics(const Tensor& x, Statistics batch) {
  check("x", x);
  check_channels("mean and variance", spec_, batch);
  const ImageSums sums = image_sums();
  image_statistics(scope_->threads(), layout_, x.span().address(), sums);
  const auto images = static_cast<std::size_t>(layout_.images);
  for (std::size_t c = 0; c < channels(); ++c) {
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
  }
}

void CpuBatchNorm::normalise(const Tensor& x, const Tensor* residual, ScaleShift w, GivenStatistics s,
                             Tensor& y) {
  check_normalise(spec_, x, residual, w, s, y);
  check("x", x);
  check("y", y);
  if (residual != nullptr) check("the residual", *residual);
  normalise_pixels(scope_->threads(), layout_, spec_.after, x.span().address(), address(residual),
                   prepare(w, s), y.span().address());
}

void CpuBatchNorm::backward_sums(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s,
                                 const Tensor& dy, const Tensor* more_dy, Tensor* dresidual,
                                 ScaleShiftGradients sums) {
  check_backward_sums(spec_, x, y, w, s, dy, more_dy, dresidual, sums);
  check("x", x);
  check("y", y);
  check("dy", dy);
  if (more_dy != nullptr) check("the second dy", *more_dy);
  if (dresidual != nullptr) check("dresidual", *dresidual);
  const ImageSums parts = image_sums();
  image_gradient_sums(scope_->threads(), layout_, spec_.after,
                      {x.span().address(), y.span().address(), dy.span().address(), address(more_dy)},
                      prepare(w, s), dresidual == nullptr ? nullptr : dresidual->span().address(), parts);
  for (std::size_t c = 0; c < channels(); ++c) {
    double scale = 0.0;
    double shift = 0.0;
    for (std::size_t n = 0; n < static_cast<std::size_t>(layout_.images); ++n) {
      scale += parts.first[n * channels() + c];
      shift += parts.second[n * channels() + c];
    }
    sums.first.address()[c] = static_cast<float>(scale * slope(s, c));
    sums.second.address()[c] = static_cast<float>(shift);
  }
}

void CpuBatchNorm::backward_data(const Tensor& x, ScaleShift w, GivenStatistics s, GivenStatistics sums,
                                 double count, const Tensor& dy, Tensor& dx) {
  check_backward_data(spec_, x, w, s, sums, count, dy, dx);
  check("x", x);
  check("dy", dy);
  check("dx", dx);
  for (std::size_t c = 0; c < channels(); ++c) {
    constants_[c] = static_cast<float>(double{sums.second.address()[c]} / count);
    slopes_[c] = static_cast<float>(double{sums.first.address()[c]} * slope(s, c) / count);
  }
  normalise_backward(scope_->threads(), layout_, spec_.after, x.span().address(), dy.span().address(),
                     prepare(w, s), constants_.data(), slopes_.data(), dx.span().address());
}

void CpuBatchNorm::backward(const Tensor& x, const Tensor& y, ScaleShift w, GivenStatistics s,
                            const Tensor& dy, const Tensor* more_dy, ScaleShiftGradients gradients,
                            Tensor& dx, Tensor* dresidual) {
  check_channels("the gradients", spec_, gradients);
  const ScaleShiftGradients sums{{local_sums_.data(), channels()},
                                 {local_sums_.data() + channels(), channels()}};
  backward_sums(x, y, w, s, dy, more_dy, dresidual, sums);
  for (std::size_t c = 0; c < channels(); ++c) {
    float& scale = gradients.first.address()[c];
    float& shift = gradients.second.address()[c];
    scale = (spec_.accumulate ? scale : 0.0F) + sums.first.address()[c];
    shift = (spec_.accumulate ? shift : 0.0F) + sums.second.address()[c];
  }
  backward_data(x, w, s, sums, static_cast<double>(layout_.images * layout_.pixels),
                dresidual == nullptr ? dy : *dresidual, dx);
}

}  // namespace flotilla
