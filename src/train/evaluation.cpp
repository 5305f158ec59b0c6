// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/trace.hpp"
#include "src/observe/progress_line.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

namespace {

using Totals = std::array<double, loss_sums>;
constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

/// Summed in double from batch to batch, so that counts stay exact beyond 2^24 samples.
/// @returns the first sample of the first batch whose loss is not finite; `none`
std::int64_t add_shard(Network& network, const Dataset& data, ValidationShard shard,
                       const LoaderOptions& options, DeviceSpan<float> sums, std::span<double> totals,
                       ClickCounts* clicks, const NetworkInputs& inputs,
                       const std::function<void(const Batch&)>& on_batch) {
  std::int64_t not_finite = none;
  std::vector<float> logits(clicks == nullptr ? 0 : static_cast<std::size_t>(2 * network.batch()));
  apply(network, data, shard, options, sums, inputs, [&](const Batch& batch, std::int64_t first) {
    std::array<float, loss_sums> part{};
    network.device().memory().download(sums, part);
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += static_cast<double>(part[i]);
    if (clicks != nullptr) {
      const auto valid = static_cast<std::size_t>(batch.valid);
      network.device().tensors().download(network.logits(), logits);
      clicks->add(std::span(logits).first(2 * valid), batch.labels.first(valid));
    }
    if (!std::isfinite(part[sum_loss])) not_finite = std::min(not_finite, first);
    on_batch(batch);
  });
  return not_finite;
}

}  // namespace

void apply(Network& network, const Dataset& data, ValidationShard shard, const LoaderOptions& options,
           DeviceSpan<float> sums, const NetworkInputs& inputs,
           const std::function<void(const Batch&, std::int64_t first)>& on_batch) {
  const auto loader =
      make_validation_loader(data, shard, network.batch(), loading_for(network.device(), options));
  std::int64_t first = shard.begin;
  ProgressLine progress("evaluating", shard.end - shard.begin, Amount::items);
  for (const Batch* batch = &loader->next(); batch->valid > 0; batch = &loader->next()) {
    network.device().flat().fill(sums, 0.0F);
    network.forward(inputs ? inputs(*batch) : batch->input(),
                    {.labels = batch->labels, .valid = batch->valid}, Pass::inference, sums);
    on_batch(*batch, first);
    network.device().tensors().finish_staging();
    first += batch->valid;
    progress.at(first - shard.begin);
  }
}

Evaluation evaluate(Network& network, const Dataset& data, const mpi::Communicator& workers,
                    const LoaderOptions& options, DeviceSpan<float> sums, std::int64_t parts, bool clicks,
                    const std::function<void(const Batch&)>& on_batch, const NetworkInputs& inputs) {
  const trace::Span span("evaluate");
  std::vector<double> mine(static_cast<std::size_t>(parts) * loss_sums);
  std::int64_t not_finite = none;
  std::optional<ClickCounts> counts;
  if (clicks) counts.emplace();
  for (std::int64_t part = 0; part < parts; ++part) {
    const ValidationShard shard =
        validation_shard(data.size(), workers.size() * parts, workers.rank() * parts + part);
    if (shard.begin == shard.end) continue;
    const std::span<double> totals =
        std::span(mine).subspan(static_cast<std::size_t>(part) * loss_sums, loss_sums);
    not_finite = std::min(not_finite, add_shard(network, data, shard, options, sums.subspan(0, loss_sums),
                                                totals, counts ? &*counts : nullptr, inputs, on_batch));
  }
  // In the order of the parts, whichever workers computed them.
  Totals totals{};
  const std::vector<double> all = workers.all_gather(std::span<const double>(mine));
  for (std::size_t i = 0; i < all.size(); ++i) totals[i % totals.size()] += all[i];
  if (std::isfinite(totals[sum_loss])) {
    not_finite = -1;
  } else {  // All ranks hold the same sum.
    workers.all_reduce(std::span<std::int64_t>(&not_finite, 1), mpi::Op::min);
  }
  if (counts) counts->merge(workers);
  const double samples = totals[sum_samples];
  return {.loss = totals[sum_loss] / samples,
          .accuracy_top1 = totals[sum_top1] / samples,
          .accuracy_top5 = totals[sum_top5] / samples,
          .samples = static_cast<std::int64_t>(samples),
          .clicks = counts ? std::optional(counts->metrics()) : std::nullopt,
          .not_finite = not_finite};
}

}  // namespace flotilla
