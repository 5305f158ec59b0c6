// SPDX-License-Identifier: Apache-2.0
#include "src/train/assembly.hpp"

namespace flotilla {

/// Collective. Where models and gradients lie, and how the workers reduce them.
void Assembly::lay_out(const AllReducePlan& plan, const AllReducePlan& averaging_plan) {
  const bool averages = config.strategy.kind != "all-reduce";
  const auto parameter_count = static_cast<std::size_t>(network->layout().size());
  const auto statistics_count = static_cast<std::size_t>(network->statistics().layout().size());
  const std::size_t model_count = parameter_count + statistics_count;
  const std::size_t models_count = averages ? 2 * model_count : model_count;
  DeviceSpan<float> models;
  if (averaging_plan.window) {
    throw_alike([&] { model_window = std::make_unique<mpi::SharedStorage>(*host, models_count); });
    models = {model_window->mine().data(), models_count};
  } else {
    model_storage = device->allocate(models_count);
    models = model_storage.span();
  }
  const auto model_at = [&](std::size_t begin) -> Model {
    return {models.subspan(begin, parameter_count),
            models.subspan(begin + parameter_count, statistics_count)};
  };
  model = model_at(0);
  if (averages) consensus = model_at(model_count);
  const std::size_t leading = static_cast<std::size_t>(passenger_floats) + model.statistics.size();
  const std::size_t gradient_count = leading + model.parameters.size();
  if (plan.window) {
    throw_alike([&] {
      gradient_window =
          std::make_unique<mpi::SharedStorage>(step_group ? step_group->host : *host, gradient_count);
    });
    gradients = {gradient_window->mine().data(), gradient_count};
  } else {
    gradient_storage = device->allocate(gradient_count);
    gradients = gradient_storage.span();
  }
  if (config.run.reproducible)
    shard_sums = std::make_unique<ShardSums>(*device, gradients, sharding.micro_steps);
  std::vector<std::span<float>> spans;
  for (const Bucket& bucket : buckets) spans.push_back(span_of(gradients, bucket));
  reduction = make_reduction(plan, step_group ? step_group->workers : world,
                             step_group ? step_group->host : *host, gradient_window.get(), spans);
  if (reduction.exact) buckets.back().begin = static_cast<std::int64_t>(leading);
  choices["strategy.all_reduce"] = reduction.first().name();
  if (averages) {
    const std::span<float> all(models.address(), model_count);
    averaging = make_reduction(averaging_plan, world, *host, model_window.get(), std::span(&all, 1));
    choices["strategy.averaging"] = averaging.first().name();
  }
}

/// The same where nothing is reduced, but pushed to servers and pulled from there: what comes back lies as
/// what goes.
void Assembly::lay_out_served() {
  const auto parameter_count = static_cast<std::size_t>(network->layout().size());
  const auto statistics_count = static_cast<std::size_t>(network->statistics().layout().size());
  const std::size_t leading = static_cast<std::size_t>(passenger_floats) + statistics_count;
  model_storage = device->allocate(leading + parameter_count);
  gradient_storage = device->allocate(leading + parameter_count);
  served_values = model_storage.span();
  gradients = gradient_storage.span();
  model = {served_values.subspan(leading, parameter_count),
           served_values.subspan(static_cast<std::size_t>(passenger_floats), statistics_count)};
}

}  // namespace flotilla
