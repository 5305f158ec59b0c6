// SPDX-License-Identifier: Apache-2.0
#include "src/optim/layerwise_optimizer.hpp"

#include <cmath>
#include <utility>

namespace flotilla {

namespace {

std::vector<FlatRange> without_decay(std::vector<FlatRange> ranges) {
  for (FlatRange& range : ranges) range.weight_decay = 0.0F;
  return ranges;
}

}  // namespace

LayerwiseOptimizer::LayerwiseOptimizer(const OptimizerConfig& config, const ArenaLayout& layout,
                                       Device& device)
    : Optimizer(config, layout, device),
      math_(device.flat()),
      runs_ahead_(device.info().runs_ahead),
      parameter_norms_(ranges.size()),
      gradient_norms_(ranges.size()),
      scaled_ranges_(ranges.size()) {}

void LayerwiseOptimizer::update_by_norms(UpdateInput in, const TrustRatio& ratio, const UpdateRule& by,
                                         const UpdateState& with) {
  if (runs_ahead_ && has_whole_tensors()) return updates.update_by_norms(in, ratio, by, with);
  math_.norms(in.parameters, in.ranges, parameter_norms_);
  math_.norms(in.gradients, in.ranges, gradient_norms_);
  complete_norms(parameter_norms_, gradient_norms_);
  const double scale = std::abs(static_cast<double>(in.gradient_scale));
  for (std::size_t i = 0; i < in.ranges.size(); ++i) {
    scaled_ranges_[i] = in.ranges[i];
    scaled_ranges_[i].rate_factor *= ratio(parameter_norms_[i], scale * gradient_norms_[i],
                                           static_cast<double>(in.ranges[i].weight_decay));
  }
  in.ranges = scaled_ranges_;
  updates.update(in, by, with);
}

Lars::Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : LayerwiseOptimizer(config, layout, device),
      ratio_{
          .kind = TrustRatio::Kind::lars, .coefficient = config.lars_coefficient, .epsilon = config.epsilon} {
}

void Lars::update(UpdateInput in) {
  in.ranges = ranges;
  in.decay = Decay::coupled;
  update_by_norms(in, ratio_, rule, state);
}

Lamb::Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : LayerwiseOptimizer(config, layout, device),
      rate_ranges_(without_decay(ranges)),
      direction_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {
  std::get<rules::LambDirection>(rule).direction = direction_.span();
}

void Lamb::update(UpdateInput in) {
  const HalfCopy halves = std::exchange(in.halves, {});  // The direction changes no parameter.
  in.ranges = ranges;
  updates.update(in, rule, state);
  update_by_norms({.parameters = in.parameters,
                   .gradients = direction_.span(),
                   .ranges = rate_ranges_,
                   .learning_rate = in.learning_rate,
                   .numbers = in.numbers,
                   .halves = halves},
                  {.kind = TrustRatio::Kind::lamb}, rules::Sgd{}, {});
}

}  // namespace flotilla
