// SPDX-License-Identifier: Apache-2.0
#include "src/optim/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "src/optim/layerwise_optimizer.hpp"

namespace flotilla {

namespace {

/// momentum and nesterov.
class Momentum : public Optimizer {
 public:
  Momentum(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
      : updates_(device.updates()),
        ranges_(update_ranges(config, layout, false)),
        decay_(config.decay),
        mu_(static_cast<float>(config.momentum)),
        nesterov_(config.kind == OptimizerKind::nesterov),
        velocity_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {}

  std::vector<OptimizerSlot> slots() override { return {{"momentum", velocity_.span()}}; }

 protected:
  void update(UpdateInput in, std::int64_t) override {
    in.ranges = due(ranges_);
    in.decay = decay_;
    updates_.momentum(in, velocity_.span(), mu_, nesterov_);
  }

 private:
  FlatUpdates& updates_;
  std::vector<FlatRange> ranges_;
  Decay decay_;
  float mu_;
  bool nesterov_;
  Storage velocity_;
};

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
      : updates_(device.updates()), ranges_(update_ranges(config, layout, false)), decay_(config.decay) {}

  std::vector<OptimizerSlot> slots() override { return {}; }

 protected:
  void update(UpdateInput in, std::int64_t) override {
    in.ranges = due(ranges_);
    in.decay = decay_;
    updates_.sgd(in);
  }

 private:
  FlatUpdates& updates_;
  std::vector<FlatRange> ranges_;
  Decay decay_;
};

/// adam and adamw.
class Adam : public Optimizer {
 public:
  Adam(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
      : updates_(device.updates()),
        ranges_(update_ranges(config, layout, false)),
        decay_(config.kind == OptimizerKind::adamw ? Decay::decoupled : config.decay),
        beta1_(static_cast<float>(config.beta1)),
        beta2_(static_cast<float>(config.beta2)),
        epsilon_(static_cast<float>(config.epsilon)),
        first_(device.memory().allocate(static_cast<std::size_t>(layout.size()))),
        second_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {}

  std::vector<OptimizerSlot> slots() override {
    return {{"adam_m", first_.span()}, {"adam_v", second_.span()}};
  }

 protected:
  void update(UpdateInput in, std::int64_t step) override {
    in.ranges = due(ranges_);
    in.decay = decay_;
    updates_.adam(in, first_.span(), second_.span(), beta1_, beta2_, epsilon_, step);
  }

 private:
  FlatUpdates& updates_;
  std::vector<FlatRange> ranges_;
  Decay decay_;
  float beta1_;
  float beta2_;
  float epsilon_;
  Storage first_;
  Storage second_;
};

class Adagrad : public Optimizer {
 public:
  Adagrad(const OptimizerConfig& config, const ArenaLayout& layout, Device& device)
      : updates_(device.updates()),
        ranges_(update_ranges(config, layout, false)),
        decay_(config.decay),
        epsilon_(static_cast<float>(config.epsilon)),
        sum_(device.memory().allocate(static_cast<std::size_t>(layout.size()))) {}

  std::vector<OptimizerSlot> slots() override { return {{"adagrad_sum", sum_.span()}}; }

 protected:
  void update(UpdateInput in, std::int64_t) override {
    in.ranges = due(ranges_);
    in.decay = decay_;
    updates_.adagrad(in, sum_.span(), epsilon_);
  }

 private:
  FlatUpdates& updates_;
  std::vector<FlatRange> ranges_;
  Decay decay_;
  float epsilon_;
  Storage sum_;
};

float decay_for(const OptimizerConfig& config, ParameterKind kind) {
  const auto names = [&](NoDecay exception) { return std::ranges::count(config.no_decay, exception) > 0; };
  const bool excluded = (kind == ParameterKind::bias && names(NoDecay::biases)) ||
                        (kind == ParameterKind::batch_norm && names(NoDecay::batch_norm));
  return excluded ? 0.0F : static_cast<float>(config.weight_decay);
}

}  // namespace

void Optimizer::step(DeviceSpan<float> parameters, DeviceSpan<const float> gradients, double learning_rate,
                     double gradient_scale) {
  step_part(parameters, gradients, learning_rate, gradient_scale, begin_step(), 0, parameters.size());
}

void Optimizer::step(DeviceSpan<float> parameters, DeviceSpan<const float> gradients,
                     const UpdateNumbers* numbers) {
  update({.parameters = parameters, .gradients = gradients, .ranges = {}, .numbers = numbers}, begin_step());
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
          .gradient_scale = static_cast<float>(gradient_scale)},
         step);
  part_.reset();
}

std::span<const FlatRange> Optimizer::due(const std::vector<FlatRange>& ranges) {
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
  switch (config.kind) {
    case OptimizerKind::sgd: return std::make_unique<Sgd>(config, layout, device);
    case OptimizerKind::momentum:
    case OptimizerKind::nesterov: return std::make_unique<Momentum>(config, layout, device);
    case OptimizerKind::lars: return std::make_unique<Lars>(config, layout, device);
    case OptimizerKind::lamb: return std::make_unique<Lamb>(config, layout, device);
    case OptimizerKind::adam:
    case OptimizerKind::adamw: return std::make_unique<Adam>(config, layout, device);
    case OptimizerKind::adagrad: return std::make_unique<Adagrad>(config, layout, device);
  }
  throw InternalError("an unknown optimizer");
}

bool needs_norms(const OptimizerConfig& config) {
  return config.kind == OptimizerKind::lars || config.kind == OptimizerKind::lamb;
}

std::vector<FlatRange> update_ranges(const OptimizerConfig& config, const ArenaLayout& layout,
                                     bool per_tensor) {
  std::vector<FlatRange> ranges;
  for (const Slice& slice : layout.slices()) {
    const float decay = decay_for(config, slice.kind);
    if (!per_tensor && !ranges.empty() && ranges.back().weight_decay == decay) {
      ranges.back().count = slice.offset + slice.size - ranges.back().offset;
    } else {
      ranges.push_back({.offset = slice.offset, .count = slice.size, .weight_decay = decay});
    }
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
