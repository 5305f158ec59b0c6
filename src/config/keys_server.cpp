// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {

std::vector<Key> server_keys() {
  const Condition ratio = {"roles.kind", {"ratio"}};
  const Condition listed = {"roles.kind", {"user-defined"}};
  const Condition served = {"strategy.kind", {"parameter-server"}};
  const Condition pushes_now_and_then = {"server.mode", {"half-async", "geo"}};
  const Condition not_sync = {"server.mode", {"async", "half-async", "geo"}};
  return {
      {.path = "roles.kind",
       .field = field<&Config::roles, &RolesConfig::kind>(),
       .help = "What ranks do: \"collective\" all work; \"symmetric\" even ranks serve and odd ones work; "
               "\"ratio\" some of each host serve; \"user-defined\" as listed",
       .on_resume = of_machine,
       .presence = Necessity::optional,
       .default_text = "\"symmetric\" with a parameter server, else \"collective\""},
      {.path = "roles.servers",
       .field = field<&Config::roles, &RolesConfig::servers>(),
       .rule = at_least(1, most_count),
       .help = "\"ratio\": ranks that serve, spread evenly over the hosts",
       .on_resume = of_machine,
       .condition = ratio,
       .presence = Necessity::required},
      {.path = "roles.server_ranks",
       .field = field<&Config::roles, &RolesConfig::server_ranks>(),
       .help = "\"user-defined\": ranks that serve, such as \"0, 4-7\"",
       .on_resume = of_machine,
       .condition = listed,
       .presence = Necessity::required},
      {.path = "roles.worker_ranks",
       .field = field<&Config::roles, &RolesConfig::worker_ranks>(),
       .help = "\"user-defined\": ranks that work, such as \"1, 3\"",
       .on_resume = of_machine,
       .condition = listed,
       .presence = Necessity::optional,
       .default_text = "those that do not serve"},
      {.path = "server.mode",
       .field = field<&Config::strategy, &ServerConfig::mode>(),
       .help =
           "When a server updates: \"sync\" once all workers' gradients are there; \"async\" with each at "
           "once; \"half-async\" the same, a worker merges some first; \"geo\" workers update themselves and "
           "push differences",
       .condition = served},
      {.path = "server.push_every",
       .field = field<&Config::strategy, &ServerConfig::push_every>(),
       .rule = at_least(1, most_count),
       .help = "Steps that a worker merges into one push",
       .condition = pushes_now_and_then,
       .presence = Necessity::required},
      {.path = "server.max_staleness",
       .field = field<&Config::strategy, &ServerConfig::max_staleness>(),
       .rule = at_least(0, most_count),
       .help = "A worker that is more pushes than this ahead of the last one waits, so that a stop needs not "
               "wait for long until the others have caught up; 0: no bound",
       .condition = not_sync,
       .default_text = "as many pushes as 32 steps make, at least 1"},
      {.path = "server.split",
       .field = field<&Config::strategy, &ServerConfig::split>(),
       .help = "Which server owns a block of parameters: one after another, or by a hash of its name",
       .condition = served},
      {.path = "server.slice_parameters",
       .field = field<&Config::strategy, &ServerConfig::slice_parameters>(),
       .help = "Large tensors are cut into blocks of whole rows; false: each stays whole",
       .condition = served},
      {.path = "server.min_block_size",
       .field = field<&Config::strategy, &ServerConfig::min_block_size>(),
       .rule = at_least(1, most_steps),
       .help = "Values of the smallest block that a tensor is cut into",
       .condition = served},
      {.path = "server.wire",
       .field = field<&Config::strategy, &ServerConfig::wire>(),
       .help =
           "What is pushed travels as, and rows of embeddings that are pulled; dense values that are pulled "
           "are not rounded",
       .condition = served},
      {.path = "server.shared_memory",
       .field = field<&Config::strategy, &ServerConfig::shared_memory>(),
       .help = "A worker and a server of one host exchange values through shared memory; false: as messages",
       .condition = served},
      {.path = "server.part_kb",
       .field = field<&Config::strategy, &ServerConfig::part_kb>(),
       .rule = at_least(1, most_count),
       .help = "KiB of values in a message: a server sends back the first while the last still come; best as "
               "large as MPI sends without asking the receiver",
       .condition = served},
  };
}

}  // namespace flotilla::config
