// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/local_sgd/outer_step.hpp"

namespace flotilla {

OuterStep::OuterStep(const OuterConfig& config, Device& device, std::size_t parameters, bool keep_anchor)
    : kind_(config.kind),
      rate_(static_cast<float>(config.learning_rate)),
      momentum_(static_cast<float>(config.momentum)),
      flat_(device.flat()) {
  if (kind_ == OuterKind::none && !keep_anchor) return;
  anchor_storage_ = device.memory().allocate(parameters);
  anchor_ = anchor_storage_.span();
  if (kind_ == OuterKind::none || kind_ == OuterKind::sgd) return;
  velocity_storage_ = device.memory().allocate(parameters);
  velocity_ = velocity_storage_.span();
}

void OuterStep::set_anchor(DeviceSpan<const float> parameters) {
  if (!anchor_.empty()) flat_.copy(parameters, anchor_);
}

void OuterStep::step(DeviceSpan<float> parameters, double learning_rate) {
  const bool nothing_learnt = kind_ == OuterKind::momentum && learning_rate == 0.0;
  if (kind_ == OuterKind::none || nothing_learnt) return set_anchor(parameters);
  const auto eta = static_cast<float>(learning_rate);
  const DeviceSpan<float> difference = parameters;  // g, until θ takes its place
  flat_.scale(difference, -1.0F);
  flat_.axpy(1.0F, anchor_, difference);
  if (kind_ != OuterKind::sgd) {
    flat_.scale(velocity_, momentum_);
    flat_.axpy(kind_ == OuterKind::momentum ? 1.0F / eta : 1.0F, difference, velocity_);
  }
  if (kind_ == OuterKind::momentum) {
    flat_.axpy(-rate_ * eta, velocity_, anchor_);
  } else {
    flat_.axpy(-rate_, difference, anchor_);
    if (kind_ == OuterKind::nesterov) flat_.axpy(-rate_ * momentum_, velocity_, anchor_);
  }
  flat_.copy(anchor_, parameters);
}

std::vector<StateArray> OuterStep::arrays() {
  std::vector<StateArray> arrays;
  if (!anchor_.empty()) arrays.push_back({"strategy/averaged", StateArray::Layout::parameters, anchor_});
  if (!velocity_.empty())
    arrays.push_back({"strategy/outer_momentum", StateArray::Layout::parameters, velocity_});
  return arrays;
}

}  // namespace flotilla
