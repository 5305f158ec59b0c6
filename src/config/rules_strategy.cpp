// SPDX-License-Identifier: Apache-2.0
#include "src/config/rule_checks.hpp"

namespace flotilla::config {
namespace {

class StrategyRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void buckets() {
    if (!usable({"strategy.bucket_mb", "strategy.last_bucket_mb"})) return;
    const ReductionConfig& reduction = config.reduction;
    if (reduction.last_bucket_mb <= reduction.bucket_mb) return;
    mistakes.add(origin({"strategy.last_bucket_mb", "strategy.bucket_mb"}),
                 cat("strategy.last_bucket_mb must be at most strategy.bucket_mb (", reduction.bucket_mb,
                     "), got ", reduction.last_bucket_mb));
  }

  void ranks_per_group() {
    if (!usable({"strategy.all_reduce", "strategy.ranks_per_group"})) return;
    const ReductionConfig& reduction = config.reduction;
    const AllReduceKind kind = reduction.all_reduce;
    const LocalSgdConfig* local = config.local_sgd();
    const bool in_groups =
        kind != AllReduceKind::mpi && kind != AllReduceKind::shared_memory && kind != AllReduceKind::nccl;
    if (reduction.ranks_per_group == 0 || in_groups || (local != nullptr && local->group_all_reduce)) return;
    mistakes.add(origin({"strategy.ranks_per_group"}),
                 cat("strategy.ranks_per_group needs a strategy.all_reduce in groups (\"hierarchical\", "
                     "\"nccl-hierarchical\", \"nccl-mpi\") or \"auto\", it is ",
                     quoted(word(kind))));
  }

  void nccl() {
    const ReductionConfig& reduction = config.reduction;
    if (!usable({"strategy.all_reduce"}) || !uses_nccl(reduction.all_reduce)) return;
    const std::string all_reduce = cat("strategy.all_reduce = ", quoted(word(reduction.all_reduce)));
    const bool between_hosts = reduction.all_reduce == AllReduceKind::nccl_mpi;
    if (usable({"device.kind"}) && config.device.kind != DeviceKind::cuda)
      mistakes.add(
          origin({"strategy.all_reduce"}),
          cat(all_reduce, " needs device.kind = \"cuda\": NCCL adds in the memory of GPUs; use \"auto\""));
    if (usable({"strategy.wire"}) && reduction.wire != Precision::float32 && !between_hosts)
      mistakes.add(origin({"strategy.wire", "strategy.all_reduce"}),
                   cat("strategy.wire = ", quoted(word(reduction.wire)), " and ", all_reduce,
                       " exclude each other: NCCL adds what is there, in float32; use \"nccl-mpi\", whose "
                       "groups exchange half values"));
    const AllReduceConfig* strategy = config.all_reduce();
    if (usable({"strategy.communicators"}) && strategy != nullptr && strategy->communicators > 1 &&
        between_hosts)
      mistakes.add(
          origin({"strategy.communicators", "strategy.all_reduce"}),
          cat("strategy.communicators must be 1 with ", all_reduce,
              ": NCCL wants all its work from one thread, in one order; got ", strategy->communicators));
    exclude("strategy.all_reduce", true, "run.reproducible", config.run.reproducible,
            "NCCL adds in an order of its own; use \"auto\" or \"mpi\"");
  }

  void wire() {
    if (!usable({"strategy.all_reduce", "strategy.wire"})) return;
    const ReductionConfig& reduction = config.reduction;
    if (reduction.wire == Precision::float32 || reduction.all_reduce != AllReduceKind::shared_memory) return;
    mistakes.add(origin({"strategy.wire"}),
                 cat("strategy.wire = ", quoted(word(reduction.wire)),
                     " and strategy.all_reduce = \"shared-memory\" exclude each other: in shared memory "
                     "nothing travels"));
  }

  void local_sgd() {
    if (!usable({"strategy.kind"}) || config.local_sgd() == nullptr) return;
    const LocalSgdConfig& strategy = *config.local_sgd();
    exclude("strategy.begin_step", strategy.begin_step > 0, "strategy.begin_epoch", strategy.begin_epoch > 0,
            "give one of them");
    exclude("strategy.group_all_reduce", strategy.group_all_reduce, "strategy.before_begin",
            strategy.before_begin == BeforeBegin::all_reduce, "before_begin = \"average\" comes to the same");
    const OptimizerKind optimizer = config.optimizer.kind;
    if (usable({"optimizer.kind"}) && strategy.adaptive && optimizer != OptimizerKind::sgd &&
        optimizer != OptimizerKind::momentum && optimizer != OptimizerKind::nesterov)
      mistakes.add(
          origin({"strategy.kind", "optimizer.kind"}),
          cat("strategy.kind = \"adaptive-local-sgd\" follows the learning rate of plain gradient "
              "descent: use optimizer.kind \"sgd\", \"momentum\" or \"nesterov\", or strategy.kind = "
              "\"local-sgd\"; it is ",
              quoted(word(optimizer))));
    exclude("strategy.momentum", strategy.momentum != LocalMomentum::local, "optimizer.kind",
            optimizer == OptimizerKind::sgd, "plain \"sgd\" keeps no state");
    if (usable({"strategy.before_begin", "strategy.begin_step", "strategy.begin_epoch"}) &&
        strategy.before_begin == BeforeBegin::all_reduce && strategy.begin_step == 0 &&
        strategy.begin_epoch == 0.0)
      mistakes.add(origin({"strategy.before_begin"}),
                   "strategy.before_begin = \"all-reduce\" needs strategy.begin_step or "
                   "strategy.begin_epoch: else nothing comes before the beginning");
    exclude("model.batch_norm", config.model.synchronises_batch_norm(), "strategy.kind", true,
            "workers that step alone cannot wait for each other's batches; use \"local\", or strategy.kind = "
            "\"all-reduce\"");
    exclude("strategy.statistics", strategy.statistics != LocalStatistics::average, "model.kind",
            !config.model.has_batch_norm(), "this model has no batch norm");
  }

  void roles() {
    if (!usable({"strategy.kind", "roles.kind"}) || !config.roles.kind) return;
    const bool served = config.server() != nullptr;
    if (served != (config.roles.kind == RolesKind::collective)) return;
    mistakes.add(origin({"roles.kind"}),
                 served
                     ? std::string("roles.kind = \"collective\" has no servers: strategy.kind = "
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
    const bool whole_tensors = optimizer == OptimizerKind::lars || optimizer == OptimizerKind::lamb;
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
    mistakes.add(origin({"strategy.overlap", "strategy.communicators"}),
                 cat("strategy.overlap = false and strategy.communicators = ", strategy->communicators,
                     " exclude each other: without overlap one bucket is reduced after another"));
  }
};

}  // namespace

void check_strategy_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  StrategyRules rules(config, given, mistakes);
  rules.buckets();
  rules.ranks_per_group();
  rules.wire();
  rules.nccl();
  rules.local_sgd();
  rules.roles();
  rules.parameter_server();
  rules.overlap();
}

}  // namespace flotilla::config
