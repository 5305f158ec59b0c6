// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"
#include "src/config/presets.hpp"
#include "src/config/rules.hpp"

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

/// A preset is its keys, and has no place of its own: resolved decks have the keys.
Field strategy_preset() {
  return {.read = [](const Config&) -> Value { return std::string(); },
          .write = [](Config&, const Value&) {}};
}

class StrategyRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void buckets() {
    if (!usable({"strategy.bucket_mb", "strategy.last_bucket_mb"})) return;
    const ReductionConfig& reduction = config.reduction;
    if (reduction.last_bucket_mb <= reduction.bucket_mb) return;
    reject({"strategy.last_bucket_mb", "strategy.bucket_mb"},
           "strategy.last_bucket_mb must be at most strategy.bucket_mb (", reduction.bucket_mb, "), got ",
           reduction.last_bucket_mb);
  }

  void ranks_per_group() {
    if (!usable({"strategy.all_reduce", "strategy.ranks_per_group"})) return;
    const ReductionConfig& reduction = config.reduction;
    const mpi::AllReduceKind* const kind = kind_of(reduction.all_reduce);
    const LocalSgdConfig* local = config.local_sgd();
    if (reduction.ranks_per_group == 0 || kind == nullptr || kind->groups != mpi::Groups::none ||
        (local != nullptr && local->group_all_reduce))
      return;
    std::string in_groups;
    for (const mpi::AllReduceKind& one : mpi::all_reduce_kinds)
      if (one.groups != mpi::Groups::none) in_groups += (in_groups.empty() ? "" : ", ") + quoted(one.word);
    reject({"strategy.ranks_per_group"}, "strategy.ranks_per_group needs a strategy.all_reduce in groups (",
           in_groups, ") or \"auto\", it is ", quoted(kind->word));
  }

  void all_reduce() {
    const ReductionConfig& reduction = config.reduction;
    const mpi::AllReduceKind* const kind = kind_of(reduction.all_reduce);
    if (!usable({"strategy.all_reduce"}) || kind == nullptr) return;
    const std::string all_reduce = cat("strategy.all_reduce = ", quoted(kind->word));
    if (kind->on_gpus() && usable({"device.kind"}) && config.device.kind != DeviceKind::cuda)
      reject({"strategy.all_reduce"}, all_reduce,
             " needs device.kind = \"cuda\": NCCL adds in the memory of GPUs; use \"auto\"");
    if (usable({"strategy.wire"}) && !kind->carries(reduction.wire))
      reject(
          {"strategy.wire", "strategy.all_reduce"}, "strategy.wire = ", quoted(word(reduction.wire)), " and ",
          all_reduce, " exclude each other: ",
          kind->wires == mpi::Wires::halves ? "it sends float32 and halves; use \"hierarchical\" or \"mpi\""
          : kind->on_gpus() ? "NCCL adds what is there, in float32; use \"nccl-mpi\", whose groups exchange "
                              "half values"
                            : "ranks read each other's memory, leave it out");
    const AllReduceConfig* strategy = config.all_reduce();
    if (usable({"strategy.communicators"}) && strategy != nullptr && strategy->communicators > 1 &&
        !kind->several_communicators)
      reject({"strategy.communicators", "strategy.all_reduce"}, "strategy.communicators must be 1 with ",
             all_reduce, ": NCCL wants all its work from one thread, in one order; got ",
             strategy->communicators);
    exclude("strategy.all_reduce", kind->tree == mpi::KeepsTree::never, "run.reproducible",
            config.run.reproducible,
            cat(kind->on_gpus() ? "NCCL" : "it", " adds in an order of its own; use \"auto\" or \"mpi\""));
  }

  void scaled_wire() {
    const bool scaled = is_scaled(config.reduction.wire);
    exclude("strategy.wire", scaled, "device.kind", config.device.kind == DeviceKind::cuda,
            "the errors of its rounding are kept in the memory of the host; use \"float16\" or \"bfloat16\"");
    exclude("strategy.wire", scaled && config.all_reduce() != nullptr, "device.precision",
            config.device.precision == DevicePrecision::float16,
            "the errors kept from earlier gradients are of another loss scale; use \"bfloat16\"");
  }

  void compression() {
    const AllReduceConfig* strategy = config.all_reduce();
    const bool compresses = strategy != nullptr && strategy->compression != Compression::none;
    const auto excludes = [&](std::string_view other, bool has_other, std::string_view remedy) {
      exclude("strategy.compression", compresses, other, has_other, remedy);
    };
    excludes("device.kind", config.device.kind != DeviceKind::cpu,
             "gradients are compressed by the CPU's matrix products; use \"none\"");
    excludes("device.precision", config.device.precision == DevicePrecision::float16,
             "the errors kept from earlier gradients are of another loss scale; use \"bfloat16\"");
    excludes("run.reproducible", config.run.reproducible,
             "each worker rounds the products of its own gradients; use \"none\"");
  }

  void local_sgd() {
    if (!usable({"strategy.kind"}) || config.local_sgd() == nullptr) return;
    const LocalSgdConfig& strategy = *config.local_sgd();
    exclude("strategy.begin_step", strategy.begin_step > 0, "strategy.begin_epoch", strategy.begin_epoch > 0,
            "give one of them");
    exclude("strategy.group_all_reduce", strategy.group_all_reduce, "strategy.before_begin",
            strategy.before_begin == BeforeBegin::all_reduce, "before_begin = \"average\" comes to the same");
    const OptimizerKind optimizer = config.optimizer.kind;
    const bool measures = strategy.adaptive && strategy.rule == PeriodRule::exposed;
    if (usable({"optimizer.kind", "strategy.rule"}) && strategy.adaptive && !measures &&
        !descriptor_of(optimizer).descends)
      reject(
          {"strategy.kind", "optimizer.kind"},
          "strategy.kind = \"adaptive-local-sgd\" follows the learning rate of plain gradient descent: use "
          "optimizer.kind \"sgd\", \"momentum\" or \"nesterov\", strategy.rule = \"exposed\" or "
          "strategy.kind = \"local-sgd\"; it is ",
          quoted(word(optimizer)));
    exclude("strategy.momentum", strategy.momentum != LocalMomentum::local, "optimizer.kind",
            optimizer == OptimizerKind::sgd, "plain \"sgd\" keeps no state");
    if (usable({"strategy.before_begin", "strategy.begin_step", "strategy.begin_epoch"}) &&
        strategy.before_begin == BeforeBegin::all_reduce && strategy.begin_step == 0 &&
        strategy.begin_epoch == 0.0)
      reject({"strategy.before_begin"},
             "strategy.before_begin = \"all-reduce\" needs strategy.begin_step or strategy.begin_epoch: give "
             "one of them");
    streaming(strategy);
    eager(strategy);
    exclude("model.batch_norm", config.model.synchronises_batch_norm(), "strategy.kind", true,
            "workers that step alone cannot wait for each other's batches; use \"local\", or strategy.kind = "
            "\"all-reduce\"");
    exclude("strategy.statistics", strategy.statistics != LocalStatistics::average, "model.kind",
            !config.model.has_batch_norm(), "this model has no batch norm");
  }

  /// Fragments of a model, and averages that are on their way while training goes on.
  void streaming(const LocalSgdConfig& strategy) {
    if (!usable({"strategy.period", "strategy.fragments", "strategy.overlap_steps"})) return;
    const std::int64_t pause = strategy.period / strategy.streaming.fragments;
    if (strategy.period % strategy.streaming.fragments != 0)
      return reject({"strategy.fragments", "strategy.period"}, "strategy.period must be a multiple of ",
                    "strategy.fragments (", strategy.streaming.fragments,
                    "), since one fragment is averaged every period / fragments steps; got ",
                    strategy.period);
    if (strategy.streaming.overlap_steps >= pause && strategy.streaming.overlap_steps > 0)
      return reject({"strategy.overlap_steps", "strategy.period"},
                    "strategy.overlap_steps must be less than strategy.period / strategy.fragments (", pause,
                    "), since one average is on its way at a time; got ", strategy.streaming.overlap_steps);
    const bool overlaps = strategy.streaming.overlap_steps > 0;
    const char* const one = overlaps ? "strategy.overlap_steps" : "strategy.fragments";
    const bool streams = overlaps || strategy.streaming.fragments > 1;
    exclude(one, streams, "strategy.warm_up", strategy.warm_up != PeriodWarmUp::none,
            "the period must stay as it is; use begin_step to keep the workers together at first");
    exclude(one, streams, "strategy.momentum", strategy.momentum != LocalMomentum::local,
            "the optimizer's state of a part is not averaged; use \"local\"");
    exclude("strategy.overlap_steps", overlaps, "strategy.group_all_reduce", strategy.group_all_reduce,
            "workers of a group wait for each other in every step; leave one of them out");
  }

  /// Outer steps by changes that are a period old, which leave each worker with parameters of its own.
  void eager(const LocalSgdConfig& strategy) {
    if (!strategy.streaming.eager) return;
    const StreamingConfig& streaming = strategy.streaming;
    const auto refuse = [&](std::string_view key, bool has, std::string_view remedy) {
      exclude("strategy.eager", true, key, has, remedy);
    };
    refuse("strategy.outer.kind", strategy.outer.kind == OuterKind::none,
           "it is a way of taking outer steps; use \"nesterov\", \"momentum\" or \"sgd\"");
    refuse("strategy.fragments", streaming.fragments > 1, "changes of the whole model travel; leave one out");
    refuse("strategy.overlap_steps", streaming.overlap_steps > 0,
           "changes travel for a whole period; leave one of them out");
    refuse("strategy.mix", streaming.mix > 0.0, "no average takes a worker's place; leave one of them out");
    refuse("strategy.momentum", strategy.momentum != LocalMomentum::local,
           "the workers do not meet; use \"local\"");
    refuse("strategy.group_all_reduce", strategy.group_all_reduce,
           "workers of a group must hold equal parameters; leave one of them out");
    refuse("strategy.statistics",
           strategy.statistics == LocalStatistics::average && config.model.has_batch_norm(),
           "a worker's own are newer than a mean that comes late; use \"local\" or \"re-estimate\"");
  }

  void roles() {
    if (!usable({"strategy.kind", "roles.kind"}) || !config.roles.kind) return;
    const bool served = config.server() != nullptr;
    if (served != (config.roles.kind == RolesKind::collective)) return;
    reject({"roles.kind"},
           served ? std::string("roles.kind = \"collective\" has no servers: strategy.kind = "
                                "\"parameter-server\" needs \"symmetric\", \"ratio\" or \"user-defined\"")
                  : cat("roles.kind = ", quoted(word(*config.roles.kind)),
                        " needs strategy.kind = \"parameter-server\", it is ",
                        quoted(word(config.strategy_kind())), ", where all ranks work"));
  }

  void parameter_server() {
    if (!usable({"strategy.kind", "server.mode"}) || config.server() == nullptr) return;
    const ServerMode mode = config.server()->mode;
    const bool asynchronous = mode == ServerMode::async || mode == ServerMode::half_async;
    const OptimizerKind optimizer = config.optimizer.kind;
    const bool whole_tensors = needs_norms(config.optimizer);
    exclude("train.gradient_clip_norm", config.train.gradient_clip_norm > 0.0, "server.mode", asynchronous,
            "no server sees the whole gradient of a worker; use \"sync\" or \"geo\"");
    exclude("optimizer.kind", whole_tensors && asynchronous, "server.slice_parameters",
            config.server()->slice_parameters,
            cat(quoted(word(optimizer)),
                " needs the norm of whole tensors; use \"sync\" or slice_parameters = false"));
    exclude("model.batch_norm", config.model.synchronises_batch_norm(), "server.mode",
            mode != ServerMode::sync, "workers that do not wait for each other have no batch in common");
    const bool rows = config.model.has_embeddings();
    exclude("model.kind", rows && whole_tensors, "optimizer.kind", true,
            cat(quoted(word(optimizer)), " needs the norm of whole tensors, and a table of rows has none"));
    exclude("device.precision", rows && config.device.precision == DevicePrecision::float16, "server.mode",
            mode == ServerMode::half_async,
            "the rows of a step that overflows would be pushed with those of others; use \"bfloat16\" or "
            "\"async\"");
    exclude("checkpoint.per_rank", config.checkpoint.per_rank, "strategy.kind", true,
            "the servers hold the one model");
  }

  void overlap() {
    if (!usable({"strategy.overlap", "strategy.communicators"})) return;
    const AllReduceConfig* strategy = config.all_reduce();
    if (strategy == nullptr || strategy->overlap || strategy->communicators == 1) return;
    reject({"strategy.overlap", "strategy.communicators"},
           "strategy.overlap = false and strategy.communicators = ", strategy->communicators,
           " exclude each other: without overlap one bucket is reduced after another");
  }
};

std::string all_reduce_help() {
  std::string help =
      "\"auto\": NCCL where each rank has a GPU of its own; else shared memory on one host, or the faster of "
      "the others, measured at the start";
  for (const mpi::AllReduceKind& kind : mpi::all_reduce_kinds)
    help += cat("; \"", kind.word, "\": ", kind.help);
  return help;
}

}  // namespace

std::vector<Key> strategy_keys() {
  const Condition all_reduce = {"strategy.kind", {"all-reduce"}};
  const Condition reduces = {"strategy.kind", {"all-reduce", "local-sgd", "adaptive-local-sgd"}};
  const Condition scaled = {"strategy.wire", {"int8", "fp8", "fp4"}};
  const Condition compresses = {"strategy.compression", {"powersgd"}};
  return {
      Key{"strategy.kind", strategy_kind(), any_value(), may_change,
          "How the workers agree on one model: \"all-reduce\" averages their gradients in every step, "
          "\"local-sgd\" their parameters now and then; \"parameter-server\" has ranks that hold the "
          "parameters and update them"},
      Key{"strategy.preset",
          strategy_preset(),
          one_of(preset_names()),
          may_change,
          presets_help(),
          {"strategy.kind", {"local-sgd", "adaptive-local-sgd"}}}
          .may_be_left_out(),
      key<&ReductionConfig::all_reduce>("strategy.all_reduce", any_value(), may_change, all_reduce_help())
          .only_for(reduces),
      key<&ReductionConfig::ranks_per_group>(
          "strategy.ranks_per_group", at_least(0, max_count), may_change,
          "Of those in groups: ranks per group, the last may be smaller; 0: a group per host")
          .only_for(reduces),
      key<&ReductionConfig::wire>("strategy.wire", any_value(), may_change,
                                  "Wire type of gradients, or with local SGD of differences, between "
                                  "processes; with \"float16\" values "
                                  "and sums above 65504 overflow; \"int8\", \"fp8\" (e4m3), \"fp4\" (e3m0) "
                                  "have a scale per 256 values, "
                                  "and what rounding leaves is sent with the next ones")
          .only_for(reduces),
      key<&ReductionConfig::wire_rounding>(
          "strategy.wire_rounding", any_value(), may_change,
          "To the \"nearest\" value, or \"stochastic\" by draws of run.seed, the step and the value's number")
          .only_for(scaled),
      key<&AllReduceConfig::communicators>(
          "strategy.communicators", at_least(1, 64), may_change,
          "Buckets that are reduced at the same time, bucket i over communicator i mod this")
          .only_for(all_reduce),
      key<&AllReduceConfig::overlap>(
          "strategy.overlap", any_value(), may_change,
          "Buckets are reduced during the backward pass; false: after it, to measure the gain")
          .only_for(all_reduce),
      key<&AllReduceConfig::compression>(
          "strategy.compression", any_value(), may_change,
          "\"powersgd\" sends matrices of gradients as products of two thin ones, after the backward pass; "
          "what that leaves out is added to the next step's gradients")
          .only_for(all_reduce),
      key<&AllReduceConfig::compression_rank>(
          "strategy.compression_rank", at_least(1, max_count), may_change,
          "Columns of the thin matrices; a matrix that they do not halve goes as it is")
          .only_for(compresses),
      key<&AllReduceConfig::compression_start>(
          "strategy.compression_start", at_least(0, max_steps), may_change,
          "Steps before the first compressed one, best a tenth of training: early gradients have more ranks")
          .only_for(compresses),
      key<&ReductionConfig::bucket_mb>("strategy.bucket_mb", positive(1048576), may_change,
                                       "MiB of gradients that are reduced together")
          .only_for(reduces),
      key<&ReductionConfig::last_bucket_mb>(
          "strategy.last_bucket_mb", positive(1048576), may_change,
          "MiB of the bucket reduced last, which no computation hides; at most bucket_mb")
          .only_for(reduces),
  };
}

std::vector<Key> local_sgd_keys() {
  const Condition fixed = {"strategy.kind", {"local-sgd"}};
  const Condition adaptive = {"strategy.kind", {"adaptive-local-sgd"}};
  const Condition local = {"strategy.kind", {"local-sgd", "adaptive-local-sgd"}};
  const Condition guide = {"strategy.rule", {"guide"}};
  const Condition exposed = {"strategy.rule", {"exposed"}};
  const Condition estimates = {"strategy.statistics", {"re-estimate"}};
  const Condition outer = {"strategy.outer.kind", {"sgd", "momentum", "nesterov"}};
  const Condition outer_momentum = {"strategy.outer.kind", {"momentum", "nesterov"}};
  return {
      key<&LocalSgdConfig::period>("strategy.period", at_least(1, max_count), may_change,
                                   "Steps that each worker takes alone before the parameters are averaged")
          .only_for(fixed)
          .must_be_given(),
      key<&LocalSgdConfig::warm_up>(
          "strategy.warm_up", any_value(), may_change,
          "Of the period, a value per epoch: \"exponential\" 1, 2, 4 …, \"linear\" 2, 4, 6 …, up to it")
          .only_for(fixed),
      key<&LocalSgdConfig::streaming, &StreamingConfig::fragments>(
          "strategy.fragments", at_least(1, max_count), may_change,
          "Parts of the model, cut between tensors, that are averaged in turn, one every period / fragments "
          "steps")
          .only_for(fixed),
      key<&LocalSgdConfig::streaming, &StreamingConfig::overlap_steps>(
          "strategy.overlap_steps", at_least(0, max_count), may_change,
          "Steps that an average is on its way while training goes on; 0: the workers wait for it")
          .only_for(fixed),
      key<&LocalSgdConfig::streaming, &StreamingConfig::mix>(
          "strategy.mix", at_least(0, 1), may_change,
          "Share of a worker's own values that it keeps where an average takes effect")
          .only_for(fixed),
      key<&LocalSgdConfig::streaming, &StreamingConfig::eager>(
          "strategy.eager", any_value(), may_change,
          "The outer step does not wait: it takes the other workers' changes of the period before, which "
          "travelled meanwhile, and the worker's own of this one (Kale et al. 2025)")
          .only_for(fixed),
      key<&LocalSgdConfig::rule>("strategy.rule", any_value(), may_change,
                                 "How the period follows loss and learning rate: \"guide\" and \"paper\" "
                                 "(AdaComm) once an epoch, \"fleet2\" at every averaging; or measured times: "
                                 "\"exposed\", whose periods differ from run to run")
          .only_for(adaptive),
      key<&LocalSgdConfig::initial_period>("strategy.initial_period", at_least(1, max_count), may_change,
                                           "The period at the beginning, which the rule scales")
          .only_for(adaptive),
      key<&LocalSgdConfig::aims, &PeriodAims::lowest_loss>(
          "strategy.lowest_loss", at_least(0), may_change,
          "The loss that training can reach: at or below it the period is 1")
          .only_for(guide),
      key<&LocalSgdConfig::aims, &PeriodAims::exposed_share>(
          "strategy.exposed_share", {.low = 0, .high = 1, .low_itself = false, .high_itself = false},
          may_change, "Share of the time that averagings may take: the period is the shortest that keeps it")
          .only_for(exposed),
      key<&LocalSgdConfig::begin_step>("strategy.begin_step", at_least(0, max_steps), may_change,
                                       "Steps that all workers take together before local ones begin")
          .only_for(local),
      key<&LocalSgdConfig::begin_epoch>("strategy.begin_epoch", at_least(0, max_steps), may_change,
                                        "The same in epochs; give one of them")
          .only_for(local),
      key<&LocalSgdConfig::before_begin>(
          "strategy.before_begin", any_value(), may_change,
          "Those steps: \"average\" the parameters after each, or \"all-reduce\" the gradients")
          .only_for(local),
      key<&LocalSgdConfig::momentum>(
          "strategy.momentum", any_value(), may_change,
          "The optimizer's state at an averaging: each worker's own, averaged as well, or zeroed")
          .only_for(local),
      key<&LocalSgdConfig::statistics>("strategy.statistics", any_value(), may_change,
                                       "Running statistics of batch norm: averaged with the parameters, each "
                                       "worker's own, or taken from training batches before they are needed")
          .only_for(local),
      key<&LocalSgdConfig::estimate_batches>("strategy.estimate_batches", at_least(1, max_count), may_change,
                                             "Training batches per worker that they are taken from")
          .only_for(estimates),
      key<&LocalSgdConfig::group_all_reduce>(
          "strategy.group_all_reduce", any_value(), may_change,
          "Average gradients inside each group (ranks_per_group) in every step: hierarchical local SGD")
          .only_for(local),
      key<&LocalSgdConfig::outer, &OuterConfig::kind>(
          "strategy.outer.kind", any_value(), may_change,
          "What is done with the averaged difference: \"none\" takes it, \"momentum\" is SlowMo, "
          "\"nesterov\" is DiLoCo's")
          .only_for(local),
      key<&LocalSgdConfig::outer, &OuterConfig::learning_rate>("strategy.outer.learning_rate", positive(),
                                                               may_change, "SlowMo: 1, DiLoCo: 0.7")
          .only_for(outer),
      key<&LocalSgdConfig::outer, &OuterConfig::momentum>("strategy.outer.momentum", fraction(), may_change,
                                                          "SlowMo: 0.5 (with many workers more), DiLoCo: 0.9")
          .only_for(outer_momentum)
          .must_be_given(),
  };
}

std::vector<Key> server_keys() {
  const Condition ratio = {"roles.kind", {"ratio"}};
  const Condition listed = {"roles.kind", {"user-defined"}};
  const Condition served = {"strategy.kind", {"parameter-server"}};
  const Condition pushes_now_and_then = {"server.mode", {"half-async", "geo"}};
  const Condition not_sync = {"server.mode", {"async", "half-async", "geo"}};
  return {
      key<&RolesConfig::kind>("roles.kind", any_value(), of_machine,
                              "What ranks do: \"collective\" all work; \"symmetric\" even ranks serve and "
                              "odd ones work; \"ratio\" some of each host serve; \"user-defined\" as listed")
          .may_be_left_out()
          .with_default("\"symmetric\" with a parameter server, else \"collective\""),
      key<&RolesConfig::servers>("roles.servers", at_least(1, max_count), of_machine,
                                 "\"ratio\": ranks that serve, spread evenly over the hosts")
          .only_for(ratio)
          .must_be_given(),
      key<&RolesConfig::server_ranks>("roles.server_ranks", any_value(), of_machine,
                                      "\"user-defined\": ranks that serve, such as \"0, 4-7\"")
          .only_for(listed)
          .must_be_given(),
      key<&RolesConfig::worker_ranks>("roles.worker_ranks", any_value(), of_machine,
                                      "\"user-defined\": ranks that work, such as \"1, 3\"")
          .only_for(listed)
          .may_be_left_out()
          .with_default("those that do not serve"),
      key<&ServerConfig::mode>("server.mode", any_value(), may_change,
                               "When a server updates: \"sync\" once all workers' gradients are there; "
                               "\"async\" with each at once; \"half-async\" the same, a worker merges some "
                               "first; \"geo\" workers update themselves and push differences")
          .only_for(served),
      key<&ServerConfig::push_every>("server.push_every", at_least(1, max_count), may_change,
                                     "Steps that a worker merges into one push")
          .only_for(pushes_now_and_then)
          .must_be_given(),
      key<&ServerConfig::max_staleness>(
          "server.max_staleness", at_least(0, max_count), may_change,
          "A worker more than this many pushes ahead of the slowest waits, so that a stop takes effect soon; "
          "0: no bound")
          .only_for(not_sync)
          .with_default("as many pushes as 32 steps make, at least 1"),
      key<&ServerConfig::pipeline>(
          "server.pipeline", at_least(0, 1), may_change,
          "1: a worker exchanges a step's gradients and values with the servers while it computes the next "
          "step, whose parameters lack that update; 0: it waits for the answer")
          .only_for(Condition{"server.mode", {"async"}}),
      key<&ServerConfig::split>(
          "server.split", any_value(), may_change,
          "Which server owns a block of parameters: one after another, or by a hash of its name")
          .only_for(served),
      key<&ServerConfig::slice_parameters>(
          "server.slice_parameters", any_value(), may_change,
          "Large tensors are cut into blocks of whole rows; false: each stays whole")
          .only_for(served),
      key<&ServerConfig::min_block_size>("server.min_block_size", at_least(1, max_steps), may_change,
                                         "Values of the smallest block that a tensor is cut into")
          .only_for(served),
      key<&ServerConfig::wire>("server.wire", any_value(), may_change,
                               "Wire type of pushed values and of pulled embedding rows; pulled dense "
                               "values are not rounded")
          .only_for(served),
      key<&ServerConfig::shared_memory>(
          "server.shared_memory", any_value(), may_change,
          "A worker and a server of one host exchange values through shared memory; false: as messages")
          .only_for(served),
      key<&ServerConfig::part_kb>("server.part_kb", at_least(1, max_count), may_change,
                                  "KiB of values in a message: a server sends back the first while the last "
                                  "still come; best as large as MPI sends without asking the receiver")
          .only_for(served),
  };
}

void check_strategy_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  StrategyRules rules(config, given, mistakes);
  rules.buckets();
  rules.ranks_per_group();
  rules.all_reduce();
  rules.scaled_wire();
  rules.compression();
  rules.local_sgd();
  rules.roles();
  rules.parameter_server();
  rules.overlap();
}

}  // namespace flotilla::config
