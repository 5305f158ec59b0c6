// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> strategy_and_checkpoint_keys() {
  const Condition all_reduce = {"strategy.kind", {"all-reduce"}};
  return {
      {.path = "strategy.kind",
       .field = field<&Config::strategy, &StrategyConfig::kind>,
       .rule = one_of({"all-reduce"}),
       .help = "How the workers agree on one model: \"all-reduce\" averages their gradients in every step"},
      {.path = "strategy.all_reduce",
       .field = field<&Config::strategy, &StrategyConfig::all_reduce>,
       .rule = one_of({"auto", "mpi", "shared-memory"}),
       .help = "\"auto\": shared memory if all ranks are on one host, else MPI",
       .condition = all_reduce},
      {.path = "strategy.bucket_mb",
       .field = field<&Config::strategy, &StrategyConfig::bucket_mb>,
       .rule = positive(1048576),
       .help = "MiB of gradients that are reduced together",
       .condition = all_reduce},
      {.path = "strategy.last_bucket_mb",
       .field = field<&Config::strategy, &StrategyConfig::last_bucket_mb>,
       .rule = positive(1048576),
       .help = "MiB of the bucket reduced last, which no computation hides; at most bucket_mb",
       .condition = all_reduce},
      {.path = "checkpoint.every",
       .field = field<&Config::checkpoint, &CheckpointConfig::every>,
       .rule = at_least(0, most_steps),
       .help = "Steps between checkpoints; 0: at the end only"},
      {.path = "checkpoint.keep",
       .field = field<&Config::checkpoint, &CheckpointConfig::keep>,
       .rule = at_least(1, most_count),
       .help = "Newest checkpoints that are kept"},
      {.path = "checkpoint.per_rank",
       .field = field<&Config::checkpoint, &CheckpointConfig::per_rank>,
       .rule = any(),
       .help = "Every rank saves its own model into a folder of its own as well (checkpoints/rank-0000)"},
      {.path = "validation.every",
       .field = field<&Config::validation, &ValidationConfig::every>,
       .rule = at_least(0, most_steps),
       .help = "Epochs between validations; 0: after the last step only"},
      {.path = "validation.batch_size",
       .field = field<&Config::validation, &ValidationConfig::batch_size>,
       .rule = at_least(0, most_count),
       .help = "Samples per worker; 0: as in training"},
  };
}

}  // namespace flotilla::config
