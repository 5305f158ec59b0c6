// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/error.hpp"

// What resume_matrix resumes: strategies, changes of their decks, numbers of workers, steps.

namespace flotilla::test {

using Keys = std::map<std::string, std::string>;

constexpr int workers_before = 3;

struct Named {
  std::string name;
  Keys keys;
};

inline Keys operator|(Keys keys, const Keys& more) {
  for (const auto& [key, value] : more) keys[key] = value;
  return keys;
}

inline Keys local(const Keys& more = {}) {
  return Keys{{"strategy.kind", "local-sgd"}, {"strategy.period", "6"}} | more;
}

inline Keys served(const std::string& mode, const Keys& more = {}) {
  return Keys{{"strategy.kind", "parameter-server"},
              {"roles.kind", "ratio"},
              {"roles.servers", "1"},
              {"server.mode", mode}} |
         more;
}

inline const std::vector<Named>& strategies() {
  static const std::vector<Named> all = {
      {"all-reduce", {}},
      {"local", local()},
      {"averaged slots", local({{"strategy.momentum", "average"}})},
      {"reset slots", local({{"strategy.momentum", "reset"}})},
      {"post-local", local({{"strategy.begin_step", "8"}, {"strategy.before_begin", "all-reduce"}})},
      {"post-local, epoch", local({{"strategy.begin_epoch", "1"}, {"strategy.before_begin", "all-reduce"}})},
      {"averages first", local({{"strategy.begin_step", "8"}})},
      {"groups", local({{"strategy.group_all_reduce", "true"}, {"strategy.ranks_per_group", "2"}})},
      {"warm-up", local({{"strategy.period", "8"}, {"strategy.warm_up", "exponential"}})},
      {"outer", local({{"strategy.outer.kind", "nesterov"}, {"strategy.outer.momentum", "0.5"}})},
      {"eager", local({{"strategy.outer.kind", "nesterov"},
                       {"strategy.outer.momentum", "0.5"},
                       {"strategy.eager", "true"}})},
      {"half wire", local({{"strategy.all_reduce", "mpi"}, {"strategy.wire", "bfloat16"}})},
      {"scaled wire", local({{"strategy.wire", "int8"}})},
      {"all-reduce, scaled wire", {{"strategy.wire", "fp8"}}},
      {"adaptive",
       {{"strategy.kind", "adaptive-local-sgd"},
        {"strategy.rule", "fleet2"},
        {"strategy.initial_period", "9"}}},
      {"sync servers", served("sync")},
      {"async servers", served("async")},
      {"half-async servers", served("half-async", {{"server.push_every", "3"}})},
      {"geo servers", served("geo", {{"server.push_every", "3"}})}};
  return all;
}

inline const std::vector<Named>& changes() {
  const auto begins = [](const std::string& step, const std::string& epoch, const std::string& before) {
    return Keys{
        {"strategy.begin_step", step}, {"strategy.begin_epoch", epoch}, {"strategy.before_begin", before}};
  };
  static const std::vector<Named> all = {
      {"nothing", {}},
      {"smaller batch", {{"train.batch_size", "2"}}},
      {"larger batch", {{"train.batch_size", "8"}}},
      {"shorter period", {{"strategy.period", "2"}}},
      {"longer period", {{"strategy.period", "11"}}},
      {"begin later, by step", begins("20", "0", "all-reduce")},
      {"begin later, by epoch", begins("0", "2", "all-reduce")},
      {"begin later, averaging", begins("20", "0", "average")},
      {"begin before", begins("3", "0", "all-reduce")},
      {"groups of 2", {{"strategy.group_all_reduce", "true"}, {"strategy.ranks_per_group", "2"}}},
      {"groups of 3", {{"strategy.group_all_reduce", "true"}, {"strategy.ranks_per_group", "3"}}},
      {"warm-up", {{"strategy.warm_up", "linear"}}},
      {"wire", {{"strategy.all_reduce", "mpi"}, {"strategy.wire", "bfloat16"}}},
      {"wire with scales", {{"strategy.wire", "fp4"}}},
      {"smaller batch, begin later", begins("0", "2", "all-reduce") | Keys{{"train.batch_size", "2"}}}};
  return all;
}

struct Case {
  Named from, to, change;
  int workers = 0;
  std::int64_t saved_step = 0;

  /// Whether the deck that resumes sets other periods of local SGD.
  bool changes_periods() const {
    const Keys now = to.keys | change.keys;
    const auto value = [](const Keys& keys, const std::string& key) {
      return keys.contains(key) ? keys.at(key) : "0";
    };
    for (const char* key : {"kind", "period", "warm_up", "begin_step", "begin_epoch"}) {
      const std::string path = cat("strategy.", key);
      if (value(from.keys, path) != value(now, path)) return true;
    }
    return false;
  }
  std::string transition() const { return from.name == to.name ? to.name : from.name + " to " + to.name; }
  std::string text() const {
    return cat(transition(), "; ", change.name, "; ", workers, " workers; saved at step ", saved_step);
  }
};

/// Whether the strategy knows the keys of the change.
inline bool applies(const Named& change, const Named& strategy) {
  const auto kind = strategy.keys.find("strategy.kind");
  const bool reduces = kind == strategy.keys.end();
  const bool is_local = !reduces && kind->second == "local-sgd";
  const bool is_adaptive = !reduces && kind->second == "adaptive-local-sgd";
  for (const auto& [key, value] : change.keys) {
    if (key.starts_with("train.")) continue;
    if (key == "strategy.period" || key == "strategy.warm_up") {
      if (!is_local) return false;
    } else if (key == "strategy.all_reduce" || key == "strategy.wire") {
      if (!is_local && !is_adaptive && !reduces) return false;
    } else if (!is_local && !is_adaptive) {
      return false;
    }
  }
  return true;
}

inline std::vector<Case> all_cases() {
  std::vector<std::pair<Named, Named>> transitions;
  const Named& all_reduce = strategies().front();
  for (const Named& strategy : strategies()) {
    transitions.emplace_back(strategy, strategy);
    if (strategy.name == all_reduce.name) continue;
    transitions.emplace_back(all_reduce, strategy);
    transitions.emplace_back(strategy, all_reduce);
  }
  std::vector<Case> cases;
  for (const auto& [from, to] : transitions)
    for (const Named& change : changes())
      for (const int workers : {workers_before, workers_before + 1, workers_before - 1})
        for (const std::int64_t step : {5, 12, 17})
          if (applies(change, to)) cases.push_back({from, to, change, workers, step});
  return cases;
}

}  // namespace flotilla::test
