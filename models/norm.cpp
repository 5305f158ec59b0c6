// SPDX-License-Identifier: Apache-2.0
#include "models/norm.hpp"

#include "kernels/error.hpp"

namespace flotilla {

namespace {

/// Each half starts on 64 bytes.
std::size_t rounded(std::int64_t channels) {
  constexpr std::int64_t unit = ArenaLayout::alignment;
  return static_cast<std::size_t>((channels + unit - 1) / unit * unit);
}

template <class T>
ChannelPair<T> pair_of(DeviceSpan<T> arena, const Slice& first, const Slice& second) {
  return {part_of(arena, first), part_of(arena, second)};
}

}  // namespace

Norm::Norm(const Building& network, const std::string& name, const BatchNormSpec& spec,
           WorkerExchange* exchange)
    : device_(network.device),
      plan_(device_.layers().batch_norm(spec)),
      exchange_(exchange),
      channels_(spec.input[1]),
      local_count_(spec.input.size() / channels_),
      count_(local_count_ * (exchange_ == nullptr ? 1 : exchange_->workers())),
      accumulate_(spec.accumulate) {
  using Kind = Initializer::Kind;
  const Shape shape{channels_};
  const auto tensor = [&](const char* ending, Kind kind) {
    return NamedTensor{.name = name + ending,
                       .shape = shape,
                       .kind = ParameterKind::batch_norm,
                       .initializer = {.kind = kind}};
  };
  scale_slice_ = network.parameters.add(tensor(".weight", Kind::ones));
  shift_slice_ = network.parameters.add(tensor(".bias", Kind::zeros));
  mean_slice_ = network.statistics.add(tensor(".running_mean", Kind::zeros));
  variance_slice_ = network.statistics.add(tensor(".running_var", Kind::ones));
  if (network.memory.purpose() == Purpose::inference) return;

  const std::size_t half = rounded(channels_);
  const auto channels = static_cast<std::size_t>(channels_);
  memory_ = device_.memory().allocate(half * 4);
  batch_ = {memory_.span().subspan(0, channels), memory_.span().subspan(half, channels)};
  sums_ = {memory_.span().subspan(2 * half, channels), memory_.span().subspan(3 * half, channels)};
  if (exchange_ != nullptr) exchange_->reserve(2 * half);
}

void Norm::bind(const Arenas& arenas) {
  weights_ = pair_of<const float>(arenas.parameters, scale_slice_, shift_slice_);
  gradients_ = pair_of(arenas.gradients, scale_slice_, shift_slice_);
  running_ = pair_of<const float>(arenas.statistics, mean_slice_, variance_slice_);
  step_ = pair_of(arenas.step_statistics, mean_slice_, variance_slice_);
  fixed_ = arenas.fixed_statistics != nullptr && arenas.fixed_statistics->contains(mean_slice_.offset);
}

void Norm::forward(const Tensor& x, const Tensor* residual, Tensor& y, Pass pass) {
  if (pass == Pass::inference || fixed_) {
    plan_->normalise(x, residual, weights_, running_, y);
    return;
  }
  const RunningStatistics running{step_, statistics_momentum};
  if (exchange_ == nullptr) {
    plan_->forward(x, residual, weights_, batch_, running, y);
  } else {
    plan_->statistics(x, batch_);
    const DeviceSpan<float> moments = memory_.span().subspan(0, memory_.size() / 2);
    device_.flat().combine_moments(exchange_->all_gather(moments), local_count_, moments);
    plan_->normalise(x, residual, weights_, batch_, y);
    update_running_statistics(device_.flat(), batch_, count_, running);
  }
}

void Norm::replay(const Tensor& x, const Tensor* residual, Tensor& y) {
  plan_->normalise(x, residual, weights_, used(), y);
}

void Norm::backward(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy, Tensor& dx,
                    Tensor* dresidual) {
  if (exchange_ == nullptr && !fixed_)
    plan_->backward(x, y, weights_, batch_, dy, more_dy, gradients_, dx, dresidual);
  else
    backward_in_halves(x, y, dy, more_dy, dx, dresidual);
}

void Norm::backward_in_halves(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor* more_dy,
                              Tensor& dx, Tensor* dresidual) {
  plan_->backward_sums(x, y, weights_, used(), dy, more_dy, dresidual, sums_);
  // The gradients are this worker's part, as every gradient; only dx needs the sums over all.
  const auto put = [this](DeviceSpan<const float> from, DeviceSpan<float> to) {
    if (accumulate_) {
      device_.flat().axpy(1.0F, from, to);
    } else {
      device_.flat().copy(from, to);
    }
  };
  put(sums_.first, gradients_.first);
  put(sums_.second, gradients_.second);
  if (fixed_) {  // Statistics that do not depend on x: dx = scale / √(variance + ε) · dz
    device_.flat().fill(sums_.first, 0.0F);
    device_.flat().fill(sums_.second, 0.0F);
  } else {
    const DeviceSpan<float> sums = memory_.span().subspan(memory_.size() / 2, memory_.size() / 2);
    device_.flat().sum_rows(exchange_->all_gather(sums), sums);
  }
  plan_->backward_data(x, weights_, used(), sums_, static_cast<double>(count_),
                       dresidual == nullptr ? dy : *dresidual, dx);
}

}  // namespace flotilla
