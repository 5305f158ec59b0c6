// SPDX-License-Identifier: Apache-2.0
#include "src/train/evaluation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/trace.hpp"
#include "src/observe/progress_line.hpp"
#include "src/train/monitor/class_metrics.hpp"
#include "src/train/monitor/click_metrics.hpp"
#include "src/train/monitor/output_metrics.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

namespace {

using Totals = std::array<double, loss_sums>;
constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();

/// The metrics of each sample; null: this model has none.
struct SampleMetrics {
  ClickCounts* clicks = nullptr;
  ClassCounts* classes = nullptr;
  OutputSums* outputs = nullptr;
  bool any() const { return clicks != nullptr || classes != nullptr || outputs != nullptr; }
};

/// Collective. Those of all parts, in the order of the parts.
OutputMetrics merged_metrics(const OutputUnits& units, const std::vector<double>& mine,
                             const mpi::Communicator& workers) {
  OutputSums merged(units);
  const std::vector<double> all = workers.all_gather(std::span<const double>(mine));
  const std::size_t size = merged.numbers().size();
  for (std::size_t begin = 0; begin < all.size(); begin += size)
    merged.merge(std::span(all).subspan(begin, size));
  return merged.metrics();
}

/// Summed in double from batch to batch, so that counts stay exact beyond 2^24 samples.
/// @returns the first sample of the first batch whose loss is not finite; `none`
std::int64_t add_shard(const EvaluationTask& task, ValidationShard shard, std::span<double> totals,
                       const SampleMetrics& metrics, const std::function<void(const Batch&)>& on_batch) {
  Network& network = task.network;
  std::int64_t not_finite = none;
  const std::int64_t width = network.layers().back()->output_shape()[1];
  std::vector<float> logits(metrics.any() ? static_cast<std::size_t>(width * network.batch()) : 0);
  apply(task, shard, [&](const Batch& batch, std::int64_t first) {
    std::array<float, loss_sums> part{};
    network.device().memory().download(task.sums, part);
    for (std::size_t i = 0; i < totals.size(); ++i) totals[i] += static_cast<double>(part[i]);
    if (metrics.any()) {
      network.device().tensors().download(network.logits(), logits);
      const auto rows = std::span(logits).first(static_cast<std::size_t>(batch.valid * width));
      if (metrics.outputs == nullptr) {
        const auto labels = batch.labels.first(static_cast<std::size_t>(batch.valid));
        if (metrics.clicks != nullptr) metrics.clicks->add(rows, labels);
        if (metrics.classes != nullptr) metrics.classes->add(rows, labels);
      }
      if (metrics.outputs != nullptr) metrics.outputs->add(rows, batch.target_values.first(rows.size()));
    }
    if (!std::isfinite(part[sum_loss])) not_finite = std::min(not_finite, first);
    on_batch(batch);
  });
  return not_finite;
}

}  // namespace

NetworkInputs evaluation_inputs(Embeddings* embeddings, std::int64_t step) {
  if (embeddings == nullptr) return {};
  return [=](const Batch& batch) { return embeddings->evaluate(batch, step); };
}

void apply(const EvaluationTask& task, ValidationShard shard,
           const std::function<void(const Batch&, std::int64_t first)>& on_batch) {
  Network& network = task.network;
  const auto loader =
      make_validation_loader(task.data, shard, network.batch(), loading_for(network.device(), task.options));
  // For samples without targets.
  const std::int64_t outputs = network.layers().back()->output_shape().size();
  const bool needs_zeros = network.output_loss() && task.data.target_width() == 0;
  const std::vector<float> zeros(needs_zeros ? static_cast<std::size_t>(outputs) : 0);
  std::int64_t first = shard.begin;
  ProgressLine progress("evaluating", shard.end - shard.begin, Amount::items);
  for (const Batch* batch = &loader->next(); batch->valid > 0; batch = &loader->next()) {
    network.device().flat().fill(task.sums, 0.0F);
    network.forward(task.inputs ? task.inputs(*batch) : batch->input(),
                    {.labels = batch->labels,
                     .valid = batch->valid,
                     .values = needs_zeros ? std::span<const float>(zeros) : batch->target_values},
                    Pass::inference, task.sums);
    on_batch(*batch, first);
    network.device().tensors().finish_staging();
    first += batch->valid;
    progress.at(first - shard.begin);
  }
}

Evaluation evaluate(const EvaluationTask& task, const mpi::Communicator& workers, std::int64_t parts,
                    const Config& config, const std::function<void(const Batch&)>& on_batch) {
  const trace::Span span("evaluate");
  std::vector<double> mine(static_cast<std::size_t>(parts) * loss_sums);
  std::int64_t not_finite = none;
  std::optional<ClickCounts> counts;
  std::optional<ClassCounts> classes;
  if (predicts_clicks(config.model))
    counts.emplace();
  else if (config.model.has_classes())
    classes.emplace(config.model.classes);
  std::optional<OutputUnits> units;
  if (!config.model.has_classes()) units.emplace(config);
  std::vector<double> output_sums;
  for (std::int64_t part = 0; part < parts; ++part) {
    const ValidationShard shard =
        validation_shard(task.data.size(), workers.size() * parts, workers.rank() * parts + part);
    std::optional<OutputSums> outputs;
    if (units) outputs.emplace(*units);
    const SampleMetrics metrics{counts ? &*counts : nullptr, classes ? &*classes : nullptr,
                                outputs ? &*outputs : nullptr};
    const std::span<double> totals =
        std::span(mine).subspan(static_cast<std::size_t>(part) * loss_sums, loss_sums);
    if (shard.begin < shard.end)
      not_finite = std::min(not_finite, add_shard(task, shard, totals, metrics, on_batch));
    if (outputs) output_sums.insert(output_sums.end(), outputs->numbers().begin(), outputs->numbers().end());
  }
  // Totals are added in the order of the parts, whichever workers computed them.
  Totals totals{};
  const std::vector<double> all = workers.all_gather(std::span<const double>(mine));
  for (std::size_t i = 0; i < all.size(); ++i) totals[i % totals.size()] += all[i];
  if (std::isfinite(totals[sum_loss])) {
    not_finite = -1;
  } else {  // All ranks hold the same sum.
    workers.all_reduce(std::span<std::int64_t>(&not_finite, 1), mpi::Op::min);
  }
  if (counts) counts->merge(workers);
  if (classes) classes->merge(workers);
  const double samples = totals[sum_samples];
  Evaluation result{.figures = {{"loss", totals[sum_loss] / totals[sum_weights]}},
                    .samples = static_cast<std::int64_t>(samples),
                    .not_finite = not_finite};
  if (units) {
    OutputMetrics metrics = merged_metrics(*units, output_sums, workers);
    result.figures.merge(metrics.all);
    result.outputs = std::move(metrics.outputs);
  } else {
    result.figures.emplace("accuracy_top1", totals[sum_top1] / samples);
    result.figures.emplace("accuracy_top5", totals[sum_top5] / samples);
  }
  if (counts) result.figures.merge(counts->metrics());
  if (classes) result.figures.merge(classes->metrics());
  return result;
}

}  // namespace flotilla
