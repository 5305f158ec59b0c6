// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

void choose(Config& config, StrategyKind kind) {
  switch (kind) {
    case StrategyKind::all_reduce: config.strategy = AllReduceConfig(); break;
    case StrategyKind::local_sgd: config.strategy = LocalSgdConfig(); break;
    case StrategyKind::adaptive_local_sgd: config.strategy = LocalSgdConfig{.adaptive = true}; break;
    case StrategyKind::parameter_server: config.strategy = ServerConfig(); break;
  }
}

Field strategy_kind() {
  return {
      .read = [](const Config& config) { return value_of(config.strategy_kind()); },
      .write = [](Config& config,
                  const Value& value) { choose(config, choice<StrategyKind>(std::get<std::string>(value))); },
      .words = allowed_words<StrategyKind>()};
}

}  // namespace

std::vector<Key> strategy_keys() {
  const Condition all_reduce = {"strategy.kind", {"all-reduce"}};
  const Condition reduces = {"strategy.kind", {"all-reduce", "local-sgd", "adaptive-local-sgd"}};
  return {
      {.path = "strategy.kind",
       .field = strategy_kind(),
       .help = "How the workers agree on one model: \"all-reduce\" averages their gradients in every step, "
               "\"local-sgd\" their parameters now and then; \"parameter-server\" has ranks that hold the "
               "parameters and update them"},
      {.path = "strategy.all_reduce",
       .field = field<&Config::reduction, &ReductionConfig::all_reduce>(),
       .help = "\"auto\": NCCL where each rank has a GPU of its own; else shared memory on one host, or the "
               "faster of the others at the start. \"hierarchical\": inside the groups first; "
               "\"nccl-hierarchical\": the same by NCCL; \"nccl-mpi\": by NCCL inside them and MPI between",
       .condition = reduces},
      {.path = "strategy.ranks_per_group",
       .field = field<&Config::reduction, &ReductionConfig::ranks_per_group>(),
       .rule = at_least(0, most_count),
       .help = "Of those in groups: ranks per group, the last may be smaller; 0: a group per host",
       .condition = reduces},
      {.path = "strategy.wire",
       .field = field<&Config::reduction, &ReductionConfig::wire>(),
       .help = "What gradients travel as between processes; \"float16\" ends at 65504, sums too",
       .condition = reduces},
      {.path = "strategy.communicators",
       .field = field<&Config::strategy, &AllReduceConfig::communicators>(),
       .rule = at_least(1, 64),
       .help = "Buckets that are reduced at the same time, bucket i over communicator i mod this",
       .condition = all_reduce},
      {.path = "strategy.overlap",
       .field = field<&Config::strategy, &AllReduceConfig::overlap>(),
       .help = "Buckets are reduced beside backward; false: after it, to see what that gives",
       .condition = all_reduce},
      {.path = "strategy.bucket_mb",
       .field = field<&Config::reduction, &ReductionConfig::bucket_mb>(),
       .rule = positive(1048576),
       .help = "MiB of gradients that are reduced together",
       .condition = reduces},
      {.path = "strategy.last_bucket_mb",
       .field = field<&Config::reduction, &ReductionConfig::last_bucket_mb>(),
       .rule = positive(1048576),
       .help = "MiB of the bucket reduced last, which no computation hides; at most bucket_mb",
       .condition = reduces},
  };
}

std::vector<Key> checkpoint_and_validation_keys() {
  return {
      {.path = "checkpoint.every",
       .field = field<&Config::checkpoint, &CheckpointConfig::every>(),
       .rule = at_least(0, most_steps),
       .help = "Steps between checkpoints; 0: none but those of every_s and the one at the end",
       .on_resume = of_machine},
      {.path = "checkpoint.every_s",
       .field = field<&Config::checkpoint, &CheckpointConfig::every_s>(),
       .rule = at_least(0, most_steps),
       .help = "Seconds after which a checkpoint is saved if there was none meanwhile; 0: never by time",
       .on_resume = of_machine},
      {.path = "checkpoint.keep",
       .field = field<&Config::checkpoint, &CheckpointConfig::keep>(),
       .rule = at_least(1, most_count),
       .help = "Newest checkpoints that are kept",
       .on_resume = of_machine},
      {.path = "checkpoint.best",
       .field = field<&Config::checkpoint, &CheckpointConfig::best>(),
       .help = "Figure of a validation, as metrics.jsonl calls it, whose best checkpoint is kept beside the "
               "newest ones and is found as checkpoints/best.h5; a checkpoint is saved at each improvement",
       .on_resume = of_machine},
      {.path = "checkpoint.per_rank",
       .field = field<&Config::checkpoint, &CheckpointConfig::per_rank>(),
       .help = "Every rank saves its own model into a folder of its own as well (checkpoints/rank-0000)",
       .on_resume = of_machine},
      {.path = "validation.every",
       .field = field<&Config::validation, &ValidationConfig::every>(),
       .rule = at_least(0, most_steps),
       .help = "Epochs between validations; 0: after the last step only",
       .on_resume = of_machine},
      {.path = "validation.batch_size",
       .field = field<&Config::validation, &ValidationConfig::batch_size>(),
       .rule = at_least(0, most_count),
       .help = "Samples per worker; 0: as in training",
       .on_resume = of_machine},
  };
}

}  // namespace flotilla::config
