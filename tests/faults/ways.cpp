// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/ways.hpp"

#include "tests/runs/program.hpp"

namespace flotilla::test {

namespace {

Texts operator+(Texts first, const Texts& more) {
  first.insert(first.end(), more.begin(), more.end());
  return first;
}

}  // namespace

std::vector<Way> all_ways(const std::string& clicks) {
  // Wide enough that a save takes a while.
  const Texts wide = {"train", source_path("inputs/mnist_mlp.toml"), "model.widths=[256,256]"};
  const Texts digits = wide + Texts{"train.batch_size=16"};
  const Texts served = {"train", source_path("inputs/mlp_parameter_server.toml"), "model.widths=[256,256]",
                        "train.batch_size=16"};
  const Texts local = digits + Texts{"optimizer.kind=momentum", "schedule.learning_rate=0.02",
                                     "strategy.kind=local-sgd", "strategy.period=8"};
  const Texts rows = {"train",
                      source_path("inputs/ctr_dnn_criteo.toml"),
                      "data.train.path=" + clicks,
                      "data.validation.path=" + clicks,
                      "model.widths=[64,32]",
                      "train.batch_size=64",
                      "data.hash_buckets=20000"};
  return {
      {.name = "all-reduce auto", .arguments = digits, .ranks = {2, 4, 6}},
      {.name = "all-reduce shared",
       .arguments = digits + Texts{"strategy.all_reduce=shared-memory"},
       .ranks = {2, 3, 4},
       .one_host = true},
      {.name = "all-reduce mpi", .arguments = digits + Texts{"strategy.all_reduce=mpi"}, .ranks = {2, 3, 5}},
      {.name = "all-reduce groups",
       .arguments = digits + Texts{"strategy.all_reduce=hierarchical", "strategy.ranks_per_group=2"},
       .ranks = {4, 6}},
      {.name = "reproducible",
       .arguments = wide + Texts{"train.global_batch_size=32", "run.reproducible=true"},
       .ranks = {2, 4}},
      {.name = "local-sgd", .arguments = local, .ranks = {2, 3, 4, 6}, .parts = true},
      {.name = "local-sgd outer",
       .arguments = local + Texts{"strategy.outer.kind=momentum", "strategy.outer.momentum=0.5"},
       .ranks = {2},
       .parts = true},
      {.name = "server sync", .arguments = served + Texts{"server.mode=sync"}, .ranks = {4}, .servers = 2},
      {.name = "server sync, one",
       .arguments = served + Texts{"server.mode=sync", "roles.kind=user-defined", "roles.server_ranks=0"},
       .ranks = {2, 3, 4},
       .servers = 1},
      {.name = "server sync, three",
       .arguments = served + Texts{"server.mode=sync"},
       .ranks = {6},
       .servers = 3},
      {.name = "server half-async",
       .arguments = served + Texts{"server.mode=half-async", "server.push_every=4"},
       .ranks = {4},
       .servers = 2,
       .exact = false},
      {.name = "server async",
       .arguments = served + Texts{"server.mode=async"},
       .ranks = {4},
       .servers = 2,
       .exact = false},
      {.name = "server geo",
       .arguments = served + Texts{"server.mode=geo", "server.push_every=8", "optimizer.kind=momentum",
                                   "schedule.learning_rate=0.01"},
       .ranks = {4},
       .servers = 2,
       .parts = true,
       .exact = false},
      {.name = "server rows",
       .arguments = rows + Texts{"server.mode=sync"},
       .ranks = {4},
       .servers = 2,
       .exact = false},
      {.name = "server rows geo",
       .arguments = rows + Texts{"server.mode=geo", "server.push_every=8"},
       .ranks = {4},
       .servers = 2,
       .parts = true,
       .exact = false},
  };
}

}  // namespace flotilla::test
