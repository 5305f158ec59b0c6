// SPDX-License-Identifier: Apache-2.0
#include "src/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "kernels/error.hpp"
#include "src/optim/parameter_patterns.hpp"

namespace flotilla {

namespace {

float decay_for(const OptimizerConfig& config, ParameterKind kind) {
  const auto names = [&](NoDecay exception) { return std::ranges::count(config.no_decay, exception) > 0; };
  const bool excluded = (kind == ParameterKind::bias && names(NoDecay::biases)) ||
                        (kind == ParameterKind::batch_norm && names(NoDecay::batch_norm));
  return excluded ? 0.0F : static_cast<float>(config.weight_decay);
}

std::vector<FlatRange> without_decay(std::vector<FlatRange> ranges) {
  for (FlatRange& range : ranges) range.weight_decay = 0.0F;
  return ranges;
}

/// Updates with the rate of each tensor multiplied by its trust ratio. On devices that run ahead of the host
/// the norms stay there, unless other processes hold parts of the tensors.
class NormedUpdates {
 public:
  NormedUpdates(Device& device, std::size_t tensors)
      : updates_(device.updates()),
        math_(device.flat()),
        runs_ahead_(device.info().runs_ahead),
        parameter_norms_(tensors),
        gradient_norms_(tensors),
        scaled_ranges_(tensors) {}

  /// @param in its ranges are one per tensor
  /// @param whole_norms empty: this process has all of every tensor
  void update(UpdateInput in, const TrustRatio& ratio, const UpdateRule& rule, const UpdateState& state,
              const WholeNorms& whole_norms) {
    if (runs_ahead_ && !whole_norms) return updates_.update_by_norms(in, ratio, rule, state);
    math_.norms(in.parameters, in.ranges, parameter_norms_);
    math_.norms(in.gradients, in.ranges, gradient_norms_);
    if (whole_norms) whole_norms(parameter_norms_, gradient_norms_);
    const double scale = std::abs(static_cast<double>(in.gradient_scale));
    for (std::size_t i = 0; i < in.ranges.size(); ++i) {
      scaled_ranges_[i] = in.ranges[i];
      scaled_ranges_[i].rate_factor *= ratio(parameter_norms_[i], scale * gradient_norms_[i],
                                             static_cast<double>(in.ranges[i].weight_decay));
    }
    in.ranges = scaled_ranges_;
    updates_.update(in, rule, state);
  }

 private:
  FlatUpdates& updates_;
  FlatMath& math_;
  bool runs_ahead_;
  std::vector<double> parameter_norms_;
  std::vector<double> gradient_norms_;
  std::vector<FlatRange> scaled_ranges_;
};

/// Momentum with a rate per tensor (formula: make_optimizer).
class Lars : public Optimizer {
 public:
  Lars(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
      : Optimizer(config, layout, device),
        normed_(device, ranges.size()),
        ratio_{.kind = TrustRatio::Kind::lars,
               .coefficient = config.lars_coefficient,
               .epsilon = config.epsilon} {}

 protected:
  void update(UpdateInput in) override {
    in.ranges = ranges;
    in.decay = Decay::coupled;
    normed_.update(in, ratio_, rule, state, whole_norms());
  }

 private:
  NormedUpdates normed_;
  TrustRatio ratio_;
};

/// Adam's direction with a rate per tensor (formula: make_optimizer).
class Lamb : public Optimizer {
 public:
  Lamb(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
      : Optimizer(config, layout, device),
        normed_(device, ranges.size()),
        rate_ranges_(without_decay(ranges)),
        direction_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {
    std::get<rules::LambDirection>(rule).direction = direction_.span();
  }

 protected:
  void update(UpdateInput in) override {
    const HalfCopy halves = std::exchange(in.halves, {});  // The direction changes no parameter.
    in.ranges = ranges;
    updates.update(in, rule, state);
    normed_.update({.parameters = in.parameters,
                    .gradients = direction_.span(),
                    .ranges = rate_ranges_,
                    .learning_rate = in.learning_rate,
                    .numbers = in.numbers,
                    .halves = halves},
                   {.kind = TrustRatio::Kind::lamb}, rules::Sgd{}, {}, whole_norms());
  }

 private:
  NormedUpdates normed_;
  std::vector<FlatRange> rate_ranges_;  ///< Ranges of the update: without weight decay
  Storage direction_;
};

}  // namespace

Optimizer::Optimizer(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
    : updates(device.updates()),
      rule(update_rule(config)),
      ranges(update_ranges(config, layout, needs_norms(config))),
      decay_(update_decay(config)) {
  for (const char* const name : rule_state_names(rule)) {
    storage_.push_back(device.memory().allocate(static_cast<std::size_t>(layout.size())));
    state.at(slots_.size()) = storage_.back().span();
    slots_.push_back({name, storage_.back().span()});
  }
}

void Optimizer::step(DeviceSpan<float> parameters, DeviceSpan<const float> gradients, double learning_rate,
                     double gradient_scale, const HalfCopy& halves) {
  require(parameters.size() == gradients.size(), "an optimizer got ", parameters.size(), " parameters and ",
          gradients.size(), " gradients");
  update({.parameters = parameters,
          .gradients = gradients,
          .ranges = {},
          .learning_rate = static_cast<float>(learning_rate),
          .gradient_scale = static_cast<float>(gradient_scale),
          .step = begin_step(),
          .halves = halves});
}

void Optimizer::step(DeviceSpan<float> parameters, DeviceSpan<const float> gradients,
                     const UpdateNumbers* numbers, const HalfCopy& halves) {
  update({.parameters = parameters,
          .gradients = gradients,
          .ranges = {},
          .step = begin_step(),
          .numbers = numbers,
          .halves = halves});
}

void Optimizer::step_part(DeviceSpan<float> parameters, DeviceSpan<const float> gradients,
                          double learning_rate, double gradient_scale, const Part& part) {
  require(parameters.size() == gradients.size() && part.begin <= part.end && part.end <= parameters.size(),
          "an optimizer got ", parameters.size(), " parameters and ", gradients.size(),
          " gradients for the part from ", part.begin, " to ", part.end);
  if (part.begin > 0 || part.end < parameters.size())
    part_ = {static_cast<std::int64_t>(part.begin), static_cast<std::int64_t>(part.end)};
  update({.parameters = parameters,
          .gradients = gradients,
          .ranges = {},
          .learning_rate = static_cast<float>(learning_rate),
          .gradient_scale = static_cast<float>(gradient_scale),
          .step = part.step});
  part_.reset();
}

void Optimizer::update(UpdateInput in) {
  in.ranges = due();
  in.decay = decay_;
  updates.update(in, rule, state);
}

/// The ranges of the current step_part().
std::span<const FlatRange> Optimizer::due() {
  if (!part_) return ranges;
  part_ranges_.clear();
  part_ranges_.reserve(ranges.size());
  for (FlatRange range : ranges) {
    const std::int64_t end = std::min(range.offset + range.count, part_->second);
    range.offset = std::max(range.offset, part_->first);
    range.count = end - range.offset;
    if (range.count > 0) part_ranges_.push_back(range);
  }
  return part_ranges_;
}

const WholeNorms& Optimizer::whole_norms() const {
  require(!part_, "norms of a part of the gradient");
  return whole_norms_;
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const ArenaLayout& layout,
                                          Device& device) {
  const UpdateRule rule = update_rule(config);
  if (std::holds_alternative<rules::Lars>(rule)) return std::make_unique<Lars>(config, layout, device);
  if (std::holds_alternative<rules::LambDirection>(rule))
    return std::make_unique<Lamb>(config, layout, device);
  return std::make_unique<Optimizer>(config, layout, device);
}

std::vector<FlatRange> update_ranges(const OptimizerConfig& config, const ArenaLayout& layout,
                                     bool per_tensor) {
  std::vector<FlatRange> ranges;
  bool joins = false;  // the slice before this one belongs to the last range
  for (const Slice& slice : layout.slices()) {
    const bool frozen = is_frozen(config, slice.name);
    if (frozen && !per_tensor) {
      joins = false;
      continue;
    }
    const FlatRange range{.offset = slice.offset,
                          .count = slice.size,
                          .weight_decay = frozen ? 0.0F : decay_for(config, slice.kind),
                          .rate_factor = frozen ? 0.0F : rate_factor_of(config, slice.name)};
    joins = joins && !per_tensor && ranges.back().weight_decay == range.weight_decay &&
            ranges.back().rate_factor == range.rate_factor;
    if (joins)
      ranges.back().count = slice.offset + slice.size - ranges.back().offset;
    else
      ranges.push_back(range);
    joins = true;
  }
  return ranges;
}

double clip_factor(FlatMath& math, DeviceSpan<const float> gradients, double gradient_scale,
                   double max_norm) {
  if (max_norm <= 0.0) return 1.0;
  return clip_factor(math.sum_of_squares(gradients), gradient_scale, max_norm);
}

double clip_factor(double sum_of_squares, double gradient_scale, double max_norm) {
  if (max_norm <= 0.0) return 1.0;
  return std::min(max_norm / (std::abs(gradient_scale) * std::sqrt(sum_of_squares) + 1e-6), 1.0);
}

}  // namespace flotilla
