// SPDX-License-Identifier: Apache-2.0
#include "src/train/mlperf_facts.hpp"

#include <string>

#include "kernels/error.hpp"
#include "src/optim/schedule.hpp"

namespace flotilla {

namespace {

/// The samples over which a batch norm of training takes its statistics.
std::int64_t batch_norm_span(const RunParts& run) {
  const ModelConfig& model = run.config.model;
  const Sharding& sharding = run.data.sharding;
  if (!model.synchronises_batch_norm()) return sharding.batch;
  return sharding.batch * (model.batch_norm_group == 0 ? sharding.workers : model.batch_norm_group);
}

void add_schedule(MlperfFacts& facts, const RunParts& run, const std::string& prefix) {
  const ScheduleConfig& config = run.config.schedule;
  const Schedule schedule(config, run.data.sharding.global_batch());
  const RunEnd end = end_of(run.config.train, run.data.sharding);
  facts.emplace_back(prefix + "_base_learning_rate", schedule.base());
  facts.emplace_back(prefix + "_end_learning_rate", schedule.at({.epochs = end.epochs,
                                                                 .total_epochs = end.epochs,
                                                                 .step = end.decay_steps,
                                                                 .total_steps = end.decay_steps}));
  facts.emplace_back(prefix + "_learning_rate_decay_steps", end.step);
  if (config.kind == ScheduleKind::linear)
    facts.emplace_back(prefix + "_learning_rate_decay_poly_power", std::int64_t{1});
  else
    facts.emplace_back(prefix + "_learning_rate_decay_poly_power", std::monostate());
  facts.emplace_back(
      prefix == "lars_opt" ? "lars_opt_learning_rate_warmup_epochs" : "opt_learning_rate_warmup_epochs",
      config.warmup_epochs);
}

void add_optimizer(MlperfFacts& facts, const RunParts& run) {
  const OptimizerConfig& config = run.config.optimizer;
  const bool descends = descriptor_of(config.kind).descends;
  const std::string name = descends ? "sgd" : std::string(word(config.kind));
  const std::string prefix = name + "_opt";
  facts.emplace_back("opt_name", name);
  add_schedule(facts, run, prefix);
  facts.emplace_back(prefix + "_weight_decay", config.weight_decay);
  if (config.kind == OptimizerKind::lars)
    facts.emplace_back("lars_epsilon", 0.0);  // kernels/flat: it has none
  if (descends || config.kind == OptimizerKind::lars)
    facts.emplace_back(prefix + "_momentum", config.kind == OptimizerKind::sgd ? 0.0 : config.momentum);
}

}  // namespace

MlperfFacts mlperf_facts(const RunParts& run) {
  const Sharding& sharding = run.data.sharding;
  MlperfFacts facts = {{"submission_benchmark", "resnet"},
                       {"submission_org", "flotilla"},
                       {"submission_division", "open"},
                       {"submission_status", "research"},
                       {"submission_platform", cat(run.machine.workers.size(), " workers, ",
                                                   run.machine.device->info().description)},
                       {"seed", run.config.run.seed},
                       {"global_batch_size", sharding.global_batch()},
                       {"gradient_accumulation_steps", sharding.micro_steps},
                       {"train_samples", run.data.training->size()},
                       {"eval_samples", run.data.validation->size()},
                       {"model_bn_span", batch_norm_span(run)}};
  add_optimizer(facts, run);
  return facts;
}

}  // namespace flotilla
