// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> local_sgd_keys() {
  const Condition fixed = {"strategy.kind", {"local-sgd"}};
  const Condition adaptive = {"strategy.kind", {"adaptive-local-sgd"}};
  const Condition local = {"strategy.kind", {"local-sgd", "adaptive-local-sgd"}};
  const Condition guide = {"strategy.rule", {"guide"}};
  const Condition estimates = {"strategy.statistics", {"re-estimate"}};
  const Condition outer = {"strategy.outer.kind", {"sgd", "momentum", "nesterov"}};
  const Condition outer_momentum = {"strategy.outer.kind", {"momentum", "nesterov"}};
  return {
      {.path = "strategy.period",
       .field = field<&Config::strategy, &LocalSgdConfig::period>(),
       .rule = at_least(1, most_count),
       .help = "Steps that each worker takes alone before the parameters are averaged",
       .condition = fixed,
       .presence = Necessity::required},
      {.path = "strategy.warm_up",
       .field = field<&Config::strategy, &LocalSgdConfig::warm_up>(),
       .help = "Of the period, a value per epoch: \"exponential\" 1, 2, 4 …, \"linear\" 2, 4, 6 …, up to it",
       .condition = fixed},
      {.path = "strategy.rule",
       .field = field<&Config::strategy, &LocalSgdConfig::rule>(),
       .help =
           "How the period follows loss and learning rate: \"guide\" and \"paper\" (AdaComm) once an epoch, "
           "\"fleet2\" at every averaging",
       .condition = adaptive},
      {.path = "strategy.initial_period",
       .field = field<&Config::strategy, &LocalSgdConfig::initial_period>(),
       .rule = at_least(1, most_count),
       .help = "The period at the beginning, which the rule scales",
       .condition = adaptive},
      {.path = "strategy.lowest_loss",
       .field = field<&Config::strategy, &LocalSgdConfig::lowest_loss>(),
       .rule = at_least(0),
       .help = "The loss that training can reach: at or below it the period is 1",
       .condition = guide},
      {.path = "strategy.begin_step",
       .field = field<&Config::strategy, &LocalSgdConfig::begin_step>(),
       .rule = at_least(0, most_steps),
       .help = "Steps that all workers take together before local ones begin",
       .condition = local},
      {.path = "strategy.begin_epoch",
       .field = field<&Config::strategy, &LocalSgdConfig::begin_epoch>(),
       .rule = at_least(0, most_steps),
       .help = "The same in epochs; give one of them",
       .condition = local},
      {.path = "strategy.before_begin",
       .field = field<&Config::strategy, &LocalSgdConfig::before_begin>(),
       .help = "Those steps: \"average\" the parameters after each, or \"all-reduce\" the gradients",
       .condition = local},
      {.path = "strategy.momentum",
       .field = field<&Config::strategy, &LocalSgdConfig::momentum>(),
       .help = "The optimizer's state at an averaging: each worker's own, averaged as well, or zeroed",
       .condition = local},
      {.path = "strategy.statistics",
       .field = field<&Config::strategy, &LocalSgdConfig::statistics>(),
       .help = "Running statistics of batch norm: averaged with the parameters, each worker's own, or "
               "taken from training batches before they are needed",
       .condition = local},
      {.path = "strategy.estimate_batches",
       .field = field<&Config::strategy, &LocalSgdConfig::estimate_batches>(),
       .rule = at_least(1, most_count),
       .help = "Training batches per worker that they are taken from",
       .condition = estimates},
      {.path = "strategy.group_all_reduce",
       .field = field<&Config::strategy, &LocalSgdConfig::group_all_reduce>(),
       .help = "Average gradients inside each group (ranks_per_group) in every step: hierarchical local SGD",
       .condition = local},
      {.path = "strategy.outer.kind",
       .field = field<&Config::strategy, &LocalSgdConfig::outer, &OuterConfig::kind>(),
       .help = "What is done with the averaged difference: \"none\" takes it, \"momentum\" is SlowMo, "
               "\"nesterov\" is DiLoCo's",
       .condition = local},
      {.path = "strategy.outer.learning_rate",
       .field = field<&Config::strategy, &LocalSgdConfig::outer, &OuterConfig::learning_rate>(),
       .rule = positive(),
       .help = "SlowMo: 1, DiLoCo: 0.7",
       .condition = outer},
      {.path = "strategy.outer.momentum",
       .field = field<&Config::strategy, &LocalSgdConfig::outer, &OuterConfig::momentum>(),
       .rule = fraction(),
       .help = "SlowMo: 0.5 (with many workers more), DiLoCo: 0.9",
       .condition = outer_momentum,
       .presence = Necessity::required},
  };
}

}  // namespace flotilla::config
