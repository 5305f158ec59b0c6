// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/model_update.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "models/layer.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/overflow.hpp"

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
  const auto move_average = [&](DeviceSpan<const float> values, DeviceSpan<float> average) {
    if (values.empty()) return;
    if (updates_ == 0) {
      flat.copy(values, average);
    } else {
      flat.scale(average, decay_);
      flat.axpy(1.0F - decay_, values, average);
    }
  };
  move_average(model.parameters, parameters_.span());
  move_average(model.statistics, statistics_.span());
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

DelayedMetrics::DelayedMetrics(Device& device)
    : device_(device),
      lane_(device.queue().copy_lane()),
      kept_{device.memory().allocate(header_size), device.memory().allocate(header_size)} {}

void DelayedMetrics::exchange(DeviceSpan<const float> sums, std::span<float> before) {
  device_.flat().copy(sums, kept_[next_].span());
  const CopyLane::Mark mark = lane_->mark();
  next_ = 1 - next_;
  if (mark_) {
    lane_->download(*mark_, kept_[next_].span(), before);
  } else {
    std::ranges::fill(before, 0.0F);
  }
  mark_ = mark;
}

void DelayedMetrics::forget() {
  if (!mark_) return;
  std::array<float, header_size> unread{};
  lane_->download(*mark_, kept_[1 - next_].span(), unread);
  mark_.reset();
}

ModelUpdate::ModelUpdate(Parts parts)
    : parts_(std::move(parts)),
      statistics_decay_(statistics_decay(parts_.micro_steps)),
      late_(parts_.device) {
  if (parts_.average_decay > 0.0) average_.emplace(parts_.device, parts_.model, parts_.average_decay);
  if (parts_.overflow_guard != nullptr)
    statistics_before_ = parts_.device.memory().allocate(parts_.model.statistics.size());
}

bool ModelUpdate::prepare(double learning_rate, std::int64_t summands) {
  summands_ = summands;
  scale_ = 1.0 / (static_cast<double>(summands) * double{parts_.loss_scale.scale()});
  if (parts_.overflow_guard == nullptr)
    return !gradients_are_usable(parts_.device, parts_.loss_scale, parts_.gradients);
  guarded_ = parts_.overflow_guard->check(parts_.gradients, static_cast<float>(learning_rate),
                                          static_cast<double>(summands),
                                          parts_.gradients.subspan(header_report, report_floats));
  return false;
}

StepOutcome ModelUpdate::outcome(bool now) {
  now = now || parts_.weighted;
  std::array<float, header_floats> sums{};
  const auto all = parts_.gradients.subspan(0, sums.size());
  if (now) {
    late_.forget();
    parts_.device.memory().download(all, sums);
  } else {
    late_.exchange(all, sums);
  }
  const double samples = std::max(1.0F, sums[sum_samples]);
  // Backward has divided by the number of samples.
  const double of_weights =
      parts_.weighted && sums[sum_weights] > 0.0F ? samples / double{sums[sum_weights]} : 1.0;
  scale_ *= of_weights;
  StepOutcome found{.loss = of_weights * (sums[sum_loss] / samples),
                    .accuracy_top1 = sums[sum_top1] / samples,
                    .accuracy_top5 = sums[sum_top5] / samples,
                    .stop = sums[header_stop] > 0.0F,
                    .samples = sums[sum_samples],
                    .late = !now};
  if (guarded_ != nullptr) {
    const auto report = std::span<const float>(sums).subspan(header_report, report_floats);
    not_taken_ = adopt_device_result(report, parts_.loss_scale, found);
  }
  return found;
}

void ModelUpdate::limit_norm() {
  if (parts_.clip_norm <= 0.0) return;
  require(guarded_ == nullptr, "a guard on the device does not know the factor of clipping");
  scale_ *= clip_factor(parts_.device.flat(), parameter_part(parts_.gradients, parts_.model), scale_,
                        parts_.clip_norm);
}

/// running ← μᵏ · running + mean over the workers of Σ μᵏ⁻ⁱ (1 − μ) · batch of micro-step i, the k
/// micro-steps' sum being what the step statistics hold. Of shards: μ · running + (1 − μ) · mean over them.
void ModelUpdate::update_statistics() {
  const auto running = parts_.model.statistics;
  if (running.empty()) return;
  const auto step = statistics_part(parts_.gradients, parts_.model);
  FlatMath& flat = parts_.device.flat();
  std::optional<KeptValues>& fixed = parts_.fixed_statistics;
  if (guarded_ != nullptr) flat.copy(running, statistics_before_.span());
  if (fixed) fixed->take(running);
  flat.scale(running, statistics_decay_);
  flat.axpy(1.0F / static_cast<float>(summands_), step, running);
  if (fixed) fixed->put_back(running);
  if (guarded_ != nullptr) parts_.overflow_guard->restore(statistics_before_.span(), running);
}

/// With a guard the host queues the update without knowing whether the step is taken.
void ModelUpdate::apply(double learning_rate) {
  update_statistics();
  const auto gradients = parameter_part(parts_.gradients, parts_.model);
  if (guarded_ == nullptr) {
    parts_.optimizer.step(parts_.model.parameters, gradients, learning_rate, scale_, half_copy());
    return;
  }
  parts_.optimizer.step(parts_.model.parameters, gradients, guarded_, half_copy());
  parts_.optimizer.set_steps(parts_.optimizer.steps() - not_taken_);
}

/// The half-precision copy that the optimizer writes besides the parameters.
HalfCopy ModelUpdate::half_copy() {
  return parts_.halves == nullptr ? HalfCopy{} : parts_.halves->target(parts_.model.parameters);
}

void ModelUpdate::finish_step(bool overflowed, StepOutcome& outcome) {
  if (guarded_ == nullptr) update_loss_scale(!overflowed, parts_.loss_scale, outcome);
}

void ModelUpdate::average_weights() {
  if (average_) average_->update(parts_.model);
  if (parts_.halves != nullptr) parts_.halves->keep();
}

void ModelUpdate::begin() {
  if (parts_.overflow_guard != nullptr)
    parts_.overflow_guard->begin(parts_.loss_scale.now(), parts_.optimizer.steps());
}

void ModelUpdate::share(const mpi::Communicator& workers) {
  LossScale::State state = parts_.loss_scale.state();
  workers.broadcast(std::span<double>(state));
  parts_.loss_scale.set_state(state);
  std::int64_t optimizer_steps = parts_.optimizer.steps();
  workers.broadcast(std::span(&optimizer_steps, 1));
  parts_.optimizer.set_steps(optimizer_steps);
  begin();
}

std::vector<StateArray> ModelUpdate::arrays() {
  if (parts_.halves != nullptr) parts_.halves->expire();
  std::vector<StateArray> arrays = state_arrays(parts_.model, &parts_.optimizer);
  if (average_)
    for (StateArray& array : average_->arrays()) arrays.push_back(std::move(array));
  return arrays;
}

std::map<std::string, double> ModelUpdate::numbers() const {
  return average_ ? average_->numbers() : std::map<std::string, double>{};
}

void ModelUpdate::set_numbers(const std::map<std::string, double>& saved) {
  if (average_) average_->set_numbers(saved);
}

}  // namespace flotilla
