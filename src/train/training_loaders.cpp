// SPDX-License-Identifier: Apache-2.0
#include "src/train/training_loaders.hpp"

#include <algorithm>
#include <utility>

#include "kernels/host_staging.hpp"
#include "src/optim/parameter_patterns.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/kept_values.hpp"

namespace flotilla {

TrainingLoaders::TrainingLoaders(RunParts& run, LoaderOptions loading)
    : run_(run),
      loading_(std::move(loading)),
      sampler_(static_cast<std::uint64_t>(run.config.run.seed), run.data.sharding) {}

std::unique_ptr<Loader> TrainingLoaders::of_steps(const Position& position) const {
  LoaderOptions options = loading_;
  options.kept = std::max(options.kept, static_cast<std::int64_t>(run_.sync.rows_ahead()));
  options.mixup = run_.config.train.mixup;
  options.cutmix = run_.config.train.cutmix;
  options.reader = {.number = run_.machine.host.rank(), .count = run_.machine.host.size()};
  return make_training_loader(*run_.data.training, sampler_, run_.machine.workers.rank(), position,
                              loading_for(*run_.machine.device, options));
}

LoaderOptions TrainingLoaders::beside_steps() const {
  LoaderOptions options = loading_;
  options.prefetch = std::min<std::int64_t>(options.prefetch, 2);
  options.sink = {};
  return options;
}

void TrainingLoaders::estimate_statistics(const Position& position, const Model& model) const {
  const bool own = model.parameters.address() == run_.model.weights.parameters.address();
  const LocalSgdConfig* local = run_.config.local_sgd();
  if (local == nullptr || local->statistics != LocalStatistics::re_estimate || own) return;
  const auto loader = make_training_loader(*run_.data.training, sampler_, run_.machine.workers.rank(),
                                           position, loading_for(*run_.machine.device, beside_steps()));
  re_estimate_statistics(run_, model, *loader, local->estimate_batches);
}

void re_estimate_statistics(RunParts& run, const Model& model, Loader& loader, std::int64_t batches) {
  FlatMath& flat = run.machine.device->flat();
  const auto batchs_own = statistics_part(run.model.gradients(), model);
  run.model.train_with(model);
  const ArenaLayout& layout = run.model.network->statistics().layout();
  KeptValues fixed(*run.machine.device, layout, fixed_slices(run.config.model, layout));
  fixed.take(model.statistics);
  flat.fill(model.statistics, 0.0F);
  fixed.put_back(model.statistics);
  for (std::int64_t i = 0; i < batches; ++i) {
    run.machine.watchdog.beat("estimating statistics", i);
    run.machine.device->tensors().finish_staging();
    const Batch& batch = loader.next();
    flat.fill(batchs_own, 0.0F);  // leaves (1 − μ) · the batch's
    run.model.network->forward(batch.input(), batch.targets(),
                               {Pass::training, static_cast<std::uint64_t>(i)},
                               run.model.validation_sums.span().subspan(0, loss_sums));
    flat.axpy(
        1.0F / ((1.0F - statistics_momentum) * static_cast<float>(batches * run.machine.workers.size())),
        batchs_own, model.statistics);
  }
  run.machine.device->tensors().finish_staging();
  flat.fill(batchs_own, 0.0F);
  run.model.train_with(run.model.weights);
  HostStaging staging(*run.machine.device, model.statistics.size());
  run.machine.workers.all_reduce(staging.map(model.statistics));
  staging.unmap(model.statistics);
  fixed.put_back(model.statistics);
}

}  // namespace flotilla
