// SPDX-License-Identifier: Apache-2.0
#include "src/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "src/optim/layerwise_optimizer.hpp"
#include "src/optim/parameter_patterns.hpp"

namespace flotilla {

namespace {

float decay_for(const OptimizerConfig& config, ParameterKind kind) {
  const auto names = [&](NoDecay exception) { return std::ranges::count(config.no_decay, exception) > 0; };
  const bool excluded = (kind == ParameterKind::bias && names(NoDecay::biases)) ||
                        (kind == ParameterKind::batch_norm && names(NoDecay::batch_norm));
  return excluded ? 0.0F : static_cast<float>(config.weight_decay);
}

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
                          double learning_rate, double gradient_scale, std::int64_t step, std::size_t begin,
                          std::size_t end) {
  require(parameters.size() == gradients.size() && begin <= end && end <= parameters.size(),
          "an optimizer got ", parameters.size(), " parameters and ", gradients.size(),
          " gradients for the part from ", begin, " to ", end);
  if (begin > 0 || end < parameters.size())
    part_ = {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
  update({.parameters = parameters,
          .gradients = gradients,
          .ranges = {},
          .learning_rate = static_cast<float>(learning_rate),
          .gradient_scale = static_cast<float>(gradient_scale),
          .step = step});
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

void Optimizer::complete_norms(std::span<double> first, std::span<double> second) const {
  require(!part_, "norms of a part of the gradient");
  if (whole_norms_) whole_norms_(first, second);
}

std::unique_ptr<Optimizer> make_optimizer(const OptimizerConfig& config, const ArenaLayout& layout,
                                          Device& device) {
  if (config.kind == OptimizerKind::lars) return std::make_unique<Lars>(config, layout, device);
  if (config.kind == OptimizerKind::lamb) return std::make_unique<Lamb>(config, layout, device);
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
