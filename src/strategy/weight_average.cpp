// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/weight_average.hpp"

namespace flotilla {

namespace {

constexpr const char* updates_key = "average.updates";

}  // namespace

WeightAverage::WeightAverage(Device& device, const Model& shape, double decay)
    : device_(device),
      decay_(static_cast<float>(decay)),
      parameters_(device.memory().allocate(shape.parameters.size())),
      statistics_(device.memory().allocate(shape.statistics.size())) {
  device.flat().fill(parameters_.span(), 0.0F);
  device.flat().fill(statistics_.span(), 0.0F);
}

void WeightAverage::update(const Model& model) {
  FlatMath& flat = device_.flat();
  const auto follow = [&](DeviceSpan<const float> values, DeviceSpan<float> average) {
    if (values.empty()) return;
    if (updates_ == 0) {
      flat.copy(values, average);
    } else {
      flat.scale(average, decay_);
      flat.axpy(1.0F - decay_, values, average);
    }
  };
  follow(model.parameters, parameters_.span());
  follow(model.statistics, statistics_.span());
  ++updates_;
}

std::vector<StateArray> WeightAverage::arrays() {
  std::vector<StateArray> arrays = {
      {"strategy/average_parameters", StateArray::Layout::parameters, parameters_.span()}};
  if (statistics_.size() > 0)
    arrays.push_back({"strategy/average_statistics", StateArray::Layout::statistics, statistics_.span()});
  return arrays;
}

std::map<std::string, double> WeightAverage::numbers() const {
  return {{updates_key, static_cast<double>(updates_)}};
}

void WeightAverage::set_numbers(const std::map<std::string, double>& saved) {
  const auto found = saved.find(updates_key);
  updates_ = found == saved.end() ? 0 : static_cast<std::int64_t>(found->second);
}

std::int64_t WeightAverage::bytes() const {
  return static_cast<std::int64_t>((parameters_.size() + statistics_.size()) * sizeof(float));
}

}  // namespace flotilla
