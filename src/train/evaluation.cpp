// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluation.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/trace.hpp"

namespace flotilla {

Evaluation evaluate(Network& network, const Dataset& data, const mpi::Communicator& workers,
                    const LoaderOptions& options, DeviceSpan<float> sums,
                    const std::function<void(const Batch&)>& on_batch) {
  const trace::Span span("evaluate");
  const ValidationShard shard = validation_shard(data.size(), workers.size(), workers.rank());
  std::array<double, loss_sums> totals{};
  std::int64_t begin = shard.begin;
  std::int64_t not_finite = data.size();
  if (shard.begin < shard.end) {
    const auto loader = make_validation_loader(data, shard, network.batch(), options);
    for (const Batch* batch = &loader->next(); batch->valid > 0; batch = &loader->next()) {
      // Summed in double from batch to batch, so that counts stay exact beyond 2^24 samples.
      network.device().flat().fill(sums.subspan(0, loss_sums), 0.0F);
      network.forward(batch->images, {.labels = batch->labels, .valid = batch->valid}, Pass::inference,
                      sums.subspan(0, loss_sums));
      std::array<float, loss_sums> part{};
      network.device().download(sums.subspan(0, loss_sums), part);
      for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += static_cast<double>(part[i]);
      if (!std::isfinite(part[sum_loss])) not_finite = std::min(not_finite, begin);
      begin += batch->valid;
      on_batch(*batch);
    }
  }
  workers.all_reduce(std::span<double>(totals));
  if (std::isfinite(totals[sum_loss])) {
    not_finite = -1;
  } else {  // All ranks hold the same sum.
    workers.all_reduce(std::span<std::int64_t>(&not_finite, 1), mpi::Op::min);
  }
  const double samples = totals[sum_samples];
  return {.loss = totals[sum_loss] / samples,
          .accuracy_top1 = totals[sum_top1] / samples,
          .accuracy_top5 = totals[sum_top5] / samples,
          .samples = static_cast<std::int64_t>(samples),
          .not_finite = not_finite};
}

}  // namespace flotilla
