// SPDX-License-Identifier: Apache-2.0
#include "src/train/re_estimate.hpp"

#include "kernels/host_staging.hpp"

namespace flotilla {

void re_estimate_statistics(Assembly& assembly, const Model& model, Loader& loader, std::int64_t batches) {
  FlatMath& flat = assembly.device->flat();
  const auto batchs_own = assembly.gradients.subspan(header_floats, model.statistics.size());
  assembly.train_with(model);
  flat.fill(model.statistics, 0.0F);
  for (std::int64_t i = 0; i < batches; ++i) {
    assembly.watchdog->beat("estimating statistics", i);
    assembly.device->finish_staging();
    const Batch& batch = loader.next();
    flat.fill(batchs_own, 0.0F);  // leaves (1 − μ) · the batch's
    assembly.network->forward(batch.input(), {.labels = batch.labels, .valid = batch.valid},
                              {Pass::training, static_cast<std::uint64_t>(i)},
                              assembly.validation_sums.span().subspan(0, loss_sums));
    flat.axpy(1.0F / ((1.0F - statistics_momentum) * static_cast<float>(batches * assembly.world.size())),
              batchs_own, model.statistics);
  }
  assembly.device->finish_staging();
  flat.fill(batchs_own, 0.0F);
  assembly.train_with(assembly.model);
  HostStaging staging(*assembly.device, model.statistics.size());
  assembly.world.all_reduce(staging.map(model.statistics));
  staging.unmap(model.statistics);
}

}  // namespace flotilla
