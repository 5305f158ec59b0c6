// SPDX-License-Identifier: Apache-2.0
#include "src/optim/layerwise_optimizer.hpp"

#include <cmath>

namespace flotilla {

namespace {

std::vector<FlatRange> without_decay(std::vector<FlatRange> ranges) {
  for (FlatRange& range : ranges) range.weight_decay = 0.0F;
  return ranges;
}

}  // namespace

Lars::Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : math_(device.flat()),
      updates_(device.updates()),
      ranges_(update_ranges(config, layout, true)),
      parameter_norms_(ranges_.size()),
      gradient_norms_(ranges_.size()),
      coefficient_(config.lars_coefficient),
      epsilon_(config.epsilon),
      mu_(static_cast<float>(config.momentum)),
      velocity_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {}

std::vector<OptimizerSlot> Lars::slots() {
  return {{"momentum", velocity_.span()}};
}

void Lars::update(UpdateInput in, std::int64_t) {
  math_.norms(in.parameters, ranges_, parameter_norms_);
  math_.norms(in.gradients, ranges_, gradient_norms_);
  complete_norms(parameter_norms_, gradient_norms_);
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    const double decay = ranges_[i].weight_decay;
    const double parameters = parameter_norms_[i];
    const double gradients = std::abs(static_cast<double>(in.gradient_scale)) * gradient_norms_[i];
    const bool scaled = decay > 0.0 && parameters > 0.0 && gradients > 0.0;
    const double factor =
        scaled ? coefficient_ * parameters / (gradients + decay * parameters + epsilon_) : 1.0;
    ranges_[i].rate_factor = static_cast<float>(factor);
  }
  in.ranges = ranges_;
  in.decay = Decay::coupled;
  updates_.lars(in, velocity_.span(), mu_);
}

Lamb::Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : math_(device.flat()),
      updates_(device.updates()),
      ranges_(update_ranges(config, layout, true)),
      rate_ranges_(without_decay(ranges_)),
      parameter_norms_(ranges_.size()),
      direction_norms_(ranges_.size()),
      beta1_(static_cast<float>(config.beta1)),
      beta2_(static_cast<float>(config.beta2)),
      epsilon_(static_cast<float>(config.epsilon)),
      first_(device.memory().allocate(static_cast<std::size_t>(layout.size()))),
      second_(device.memory().allocate(static_cast<std::size_t>(layout.size()))),
      direction_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {}

std::vector<OptimizerSlot> Lamb::slots() {
  return {{"adam_m", first_.span()}, {"adam_v", second_.span()}};
}

void Lamb::update(UpdateInput in, std::int64_t step) {
  in.ranges = ranges_;
  // The decay stands in the direction, not in the gradient that enters the moments.
  in.decay = Decay::decoupled;
  updates_.lamb_direction(in, first_.span(), second_.span(), beta1_, beta2_, epsilon_, step,
                          direction_.span());

  math_.norms(in.parameters, ranges_, parameter_norms_);
  math_.norms(direction_.span(), ranges_, direction_norms_);
  complete_norms(parameter_norms_, direction_norms_);
  for (std::size_t i = 0; i < rate_ranges_.size(); ++i) {
    const bool scaled = parameter_norms_[i] > 0.0 && direction_norms_[i] > 0.0;
    rate_ranges_[i].rate_factor =
        scaled ? static_cast<float>(parameter_norms_[i] / direction_norms_[i]) : 1.0F;
  }
  updates_.sgd({.parameters = in.parameters,
                .gradients = direction_.span(),
                .ranges = rate_ranges_,
                .learning_rate = in.learning_rate});
}

}  // namespace flotilla
