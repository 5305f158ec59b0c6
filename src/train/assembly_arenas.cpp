// SPDX-License-Identifier: Apache-2.0
#include "src/train/assembly.hpp"

namespace flotilla {

/// Collective. Where models and gradients lie, and how the workers reduce them.
void Assembly::lay_out(AllReducePlan plan, AllReducePlan averaging_plan) {
  const bool averages = config.strategy.kind != "all-reduce";
  const auto parameter_count = static_cast<std::size_t>(network->layout().size());
  const auto statistics_count = static_cast<std::size_t>(network->statistics().layout().size());
  const std::size_t model_count = parameter_count + statistics_count;
  const std::size_t held = averages ? 2 * model_count : model_count;
  const bool automatic = config.strategy.all_reduce == "auto";
  fit_to_shared_memory(averaging_plan, automatic, held, world);
  models = ReducedArray(*device, held, averaging_plan, *host);
  const auto model_at = [&](std::size_t begin) -> Model {
    return {models.values().subspan(begin, parameter_count),
            models.values().subspan(begin + parameter_count, statistics_count)};
  };
  model = model_at(0);
  if (averages) consensus = model_at(model_count);
  const std::size_t leading = static_cast<std::size_t>(header_floats) + model.statistics.size();
  const mpi::Communicator& steps_host = step_group ? step_group->host : *host;
  const std::size_t summed_count = leading + model.parameters.size();
  fit_to_shared_memory(plan, automatic, summed_count, world);
  summed = ReducedArray(*device, summed_count, plan, steps_host);
  gradients = summed.values();
  if (config.run.reproducible)
    shard_sums = std::make_unique<ShardSums>(*device, gradients, sharding.micro_steps);
  std::vector<DeviceSpan<float>> spans;
  for (const Bucket& bucket : buckets) spans.push_back(span_of(gradients, bucket));
  reduction =
      make_reduction(plan, step_group ? step_group->workers : world, steps_host, *device, summed, spans);
  if (reduction.exact) buckets.back().begin = static_cast<std::int64_t>(leading);
  choices["strategy.all_reduce"] = reduction.first().name();
  if (averages) {
    const DeviceSpan<float> all = models.values().subspan(0, model_count);
    averaging = make_reduction(averaging_plan, world, *host, *device, models, std::span(&all, 1));
    choices["strategy.averaging"] = averaging.first().name();
  }
}

/// The same where nothing is reduced, but pushed to servers and pulled from there: what comes back lies as
/// what goes.
void Assembly::lay_out_served() {
  const auto parameter_count = static_cast<std::size_t>(network->layout().size());
  const auto statistics_count = static_cast<std::size_t>(network->statistics().layout().size());
  const std::size_t leading = static_cast<std::size_t>(header_floats) + statistics_count;
  models = ReducedArray(*device, leading + parameter_count, {}, *host);
  summed = ReducedArray(*device, leading + parameter_count, {}, *host);
  served_values = models.values();
  gradients = summed.values();
  push_staging.emplace(*device, gradients.size());
  pull_staging.emplace(*device, served_values.size());
  model = {served_values.subspan(leading, parameter_count),
           served_values.subspan(static_cast<std::size_t>(header_floats), statistics_count)};
}

}  // namespace flotilla
