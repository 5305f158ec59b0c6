// SPDX-License-Identifier: Apache-2.0
#include "src/optim/layerwise_optimizer.hpp"

#include <cmath>

namespace flotilla {

namespace {

std::vector<FlatRange> without_decay(std::vector<FlatRange> ranges) {
  for (FlatRange& range : ranges) range.weight_decay = 0.0F;
  return ranges;
}

std::vector<float> factors_of(const std::vector<FlatRange>& ranges) {
  std::vector<float> factors;
  for (const FlatRange& range : ranges) factors.push_back(range.rate_factor);
  return factors;
}

}  // namespace

Lars::Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : Optimizer(config, layout, device),
      math_(device.flat()),
      parameter_norms_(ranges.size()),
      gradient_norms_(ranges.size()),
      factors_(factors_of(ranges)),
      coefficient_(config.lars_coefficient),
      epsilon_(config.epsilon) {}

void Lars::update(UpdateInput in) {
  math_.norms(in.parameters, ranges, parameter_norms_);
  math_.norms(in.gradients, ranges, gradient_norms_);
  complete_norms(parameter_norms_, gradient_norms_);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const double decay = ranges[i].weight_decay;
    const double parameters = parameter_norms_[i];
    const double gradients = std::abs(static_cast<double>(in.gradient_scale)) * gradient_norms_[i];
    const bool scaled = decay > 0.0 && parameters > 0.0 && gradients > 0.0;
    const double factor =
        scaled ? coefficient_ * parameters / (gradients + decay * parameters + epsilon_) : 1.0;
    ranges[i].rate_factor = factors_[i] * static_cast<float>(factor);
  }
  in.ranges = ranges;
  in.decay = Decay::coupled;
  updates.update(in, rule, state);
}

Lamb::Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : Optimizer(config, layout, device),
      math_(device.flat()),
      rate_ranges_(without_decay(ranges)),
      parameter_norms_(ranges.size()),
      direction_norms_(ranges.size()),
      factors_(factors_of(ranges)),
      direction_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {
  std::get<rules::LambDirection>(rule).direction = direction_.span();
}

void Lamb::update(UpdateInput in) {
  in.ranges = ranges;
  updates.update(in, rule, state);

  math_.norms(in.parameters, ranges, parameter_norms_);
  math_.norms(direction_.span(), ranges, direction_norms_);
  complete_norms(parameter_norms_, direction_norms_);
  for (std::size_t i = 0; i < rate_ranges_.size(); ++i) {
    const bool scaled = parameter_norms_[i] > 0.0 && direction_norms_[i] > 0.0;
    rate_ranges_[i].rate_factor =
        factors_[i] * (scaled ? static_cast<float>(parameter_norms_[i] / direction_norms_[i]) : 1.0F);
  }
  updates.update({.parameters = in.parameters,
                  .gradients = direction_.span(),
                  .ranges = rate_ranges_,
                  .learning_rate = in.learning_rate},
                 rules::Sgd{}, {});
}

}  // namespace flotilla
