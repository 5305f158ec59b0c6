// SPDX-License-Identifier: Apache-2.0
#include "models/half_parameters.hpp"

#include "kernels/error.hpp"

namespace flotilla {

HalfParameters::HalfParameters(Device& device, std::size_t size)
    : device_(device),
      storage_(device.memory().allocate((size + 1) / 2)),
      values_(reinterpret_cast<std::uint16_t*>(storage_.span().address()), size) {}

void HalfParameters::bind(DeviceSpan<const float> parameters) {
  require(parameters.size() == values_.size(), parameters.size(), " parameters for ", values_.size(),
          " halves");
  parameters_ = parameters;
  expire();
}

void HalfParameters::prepare() {
  if (state_ == State::kept) return;
  device_.tensors().round(parameters_, values_);
  state_ = State::rounded;
}

HalfCopy HalfParameters::target(DeviceSpan<const float> parameters) {
  require(parameters == parameters_, "an update of other parameters than those that a network computes with");
  return {values_, device_.info().precision};
}

void HalfParameters::keep() {
  if (state_ == State::rounded) state_ = State::kept;
}

void HalfParameters::expire() {
  state_ = State::expired;
}

}  // namespace flotilla
