// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/local_sgd/outer_step.hpp"

namespace flotilla {

OuterStep::OuterStep(const LocalSgdConfig& config, Device& device, std::size_t parameters, bool keep_anchor)
    : kind_(config.outer.kind),
      rate_(static_cast<float>(config.outer.learning_rate)),
      momentum_(static_cast<float>(config.outer.momentum)),
      flat_(device.flat()) {
  if (config.streaming.eager) difference_ = device.memory().allocate(parameters);
  if (kind_ == OuterKind::none && !keep_anchor) return;
  anchor_storage_ = device.memory().allocate(parameters);
  anchor_ = anchor_storage_.span();
  if (kind_ == OuterKind::none || kind_ == OuterKind::sgd) return;
  velocity_storage_ = device.memory().allocate(parameters);
  velocity_ = velocity_storage_.span();
}

void OuterStep::set_anchor(DeviceSpan<const float> parameters) {
  if (!anchor_.empty()) flat_.copy(parameters, anchor_);
  if (difference_.size() > 0) flat_.fill(difference_.span(), 0.0F);
}

void OuterStep::anticipate(DeviceSpan<float> parameters, DeviceSpan<float> sum, int workers) {
  const DeviceSpan<float> difference = difference_.span();
  flat_.axpy(-1.0F, difference, sum);
  flat_.copy(anchor_, difference);
  flat_.axpy(-1.0F, parameters, difference);
  flat_.axpy(1.0F, difference, sum);
  flat_.copy(anchor_, parameters);
  flat_.axpy(-1.0F / static_cast<float>(workers), sum, parameters);
  flat_.copy(difference, sum);
}

void OuterStep::step(DeviceSpan<float> parameters, std::size_t first, double learning_rate) {
  if (anchor_.empty()) return;
  const DeviceSpan<float> anchor = anchor_.subspan(first, parameters.size());
  const bool nothing_learnt = kind_ == OuterKind::momentum && learning_rate == 0.0;
  const bool takes_mean = kind_ == OuterKind::none || (kind_ == OuterKind::sgd && rate_ == 1.0F);
  if (takes_mean || nothing_learnt) return flat_.copy(parameters, anchor);
  const auto eta = static_cast<float>(learning_rate);
  const DeviceSpan<float> difference = parameters;  // g, until θ takes its place
  flat_.scale(difference, -1.0F);
  flat_.axpy(1.0F, anchor, difference);
  const DeviceSpan<float> velocity =
      velocity_.empty() ? velocity_ : velocity_.subspan(first, parameters.size());
  if (kind_ != OuterKind::sgd) {
    flat_.scale(velocity, momentum_);
    flat_.axpy(kind_ == OuterKind::momentum ? 1.0F / eta : 1.0F, difference, velocity);
  }
  if (kind_ == OuterKind::momentum) {
    flat_.axpy(-rate_ * eta, velocity, anchor);
  } else {
    flat_.axpy(-rate_, difference, anchor);
    if (kind_ == OuterKind::nesterov) flat_.axpy(-rate_ * momentum_, velocity, anchor);
  }
  flat_.copy(anchor, parameters);
}

std::vector<StateArray> OuterStep::arrays() {
  std::vector<StateArray> arrays;
  const auto add = [&](const char* group, DeviceSpan<float> values) {
    if (!values.empty()) arrays.push_back({group, StateArray::Layout::parameters, values});
  };
  add("strategy/outer_momentum", velocity_);
  add("strategy/averaged", anchor_);
  add("strategy/own_difference", difference_.span());
  return arrays;
}

}  // namespace flotilla
