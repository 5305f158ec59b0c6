// SPDX-License-Identifier: Apache-2.0
#include "src/config/rules.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "kernels/error.hpp"

namespace flotilla::config {
namespace {

class Rules {
 public:
  Rules(const Config& config, const GivenValues& given, Mistakes& mistakes)
      : config_(config), given_(given), mistakes_(mistakes) {}

  void batch_size() {
    if (!usable({"train.batch_size", "train.global_batch_size"})) return;
    const TrainConfig& train = config_.train;
    if (train.batch_size == 0 && train.global_batch_size == 0) {
      mistakes_.add({}, "train.batch_size or train.global_batch_size must be given");
    } else if (train.batch_size > 0 && train.global_batch_size > 0) {
      mistakes_.add(origin({"train.global_batch_size"}),
                    "train.global_batch_size and train.batch_size exclude each other; give one of them");
    }
    if (usable({"train.accumulate_steps"}) && train.global_batch_size % train.accumulate_steps != 0) {
      mistakes_.add(origin({"train.accumulate_steps", "train.global_batch_size"}),
                    cat("train.global_batch_size must be a multiple of train.accumulate_steps, got ",
                        train.global_batch_size, " and ", train.accumulate_steps));
    }
  }

  void end_of_training() {
    if (!usable({"train.epochs", "train.steps"})) return;
    if (config_.train.epochs > 0 || config_.train.steps > 0) return;
    mistakes_.add(origin({"train.epochs", "train.steps"}),
                  "train.epochs or train.steps must be given and positive: else training has no end");
  }

  void warm_up() {
    if (!usable({"train.epochs", "schedule.warmup_epochs"}) || config_.train.epochs == 0) return;
    if (config_.schedule.warmup_epochs < static_cast<double>(config_.train.epochs)) return;
    mistakes_.add(origin({"schedule.warmup_epochs", "train.epochs"}),
                  cat("schedule.warmup_epochs must be less than train.epochs, got ",
                      config_.schedule.warmup_epochs, " and ", config_.train.epochs));
  }

  void precision() {
    if (!usable({"device.kind", "device.precision"})) return;
    const DeviceConfig& device = config_.device;
    if (device.kind != DeviceKind::cpu || device.precision == Precision::float32) return;
    mistakes_.add(origin({"device.precision", "device.kind"}),
                  cat("device.precision = ", quoted(word(device.precision)),
                      " needs device.kind = \"cuda\", or \"reference\", which shows slowly what it does to a "
                      "model: \"cpu\" computes in float32 only"));
  }

  void milestones() {
    if (!usable({"schedule.kind", "schedule.milestones"})) return;
    const auto& epochs = config_.schedule.milestones;
    const auto unordered = std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>());
    if (unordered == epochs.end()) return;
    const Given* given = given_.find("schedule.milestones");
    const auto index = static_cast<std::size_t>(unordered + 1 - epochs.begin());
    Origin at = given == nullptr ? Origin{} : given->origin;
    if (given != nullptr && index < given->elements.size()) at.position = given->elements[index];
    mistakes_.add(at, cat("schedule.milestones must increase, got ", toml_text(*unordered), " before ",
                          toml_text(*(unordered + 1))));
  }

  void final_learning_rate() {
    if (!usable({"schedule.kind", "schedule.learning_rate", "schedule.final_learning_rate"})) return;
    if (config_.schedule.final_learning_rate <= config_.schedule.learning_rate) return;
    mistakes_.add(origin({"schedule.final_learning_rate"}),
                  cat("schedule.final_learning_rate must be at most schedule.learning_rate (",
                      config_.schedule.learning_rate, "), got ", config_.schedule.final_learning_rate));
  }

  void validation_data() {
    if (!usable({"data.kind", "data.validation.images", "data.validation.labels"})) return;
    const DataSourceConfig& source = config_.data.validation;
    if (source.images.empty() == source.labels.empty()) return;
    const bool has_images = !source.images.empty();
    mistakes_.add(origin({has_images ? "data.validation.images" : "data.validation.labels"}),
                  cat("data.validation needs images and labels, or neither of them: ",
                      has_images ? "labels" : "images", " are missing"));
  }

  void validation_root() {
    if (!usable({"data.kind", "data.validation.path", "data.validation.root"})) return;
    const DataSourceConfig& source = config_.data.validation;
    if (source.root.empty() || !source.path.empty()) return;
    mistakes_.add(origin({"data.validation.root"}),
                  "data.validation.root needs data.validation.path: the list of the images in it");
  }

  void click_model() {
    if (!usable({"model.kind", "strategy.kind"}) || !config_.model.has_embeddings()) return;
    if (config_.server() == nullptr)
      mistakes_.add(origin({"strategy.kind", "model.kind"}),
                    "model.kind = \"ctr-dnn\" needs strategy.kind = \"parameter-server\": the rows of its "
                    "embeddings live on servers");
    exclude("train.accumulate_steps", config_.train.accumulate_steps > 1, "model.kind", true,
            "give a larger train.batch_size, or server.mode = \"half-async\"");
  }

  void click_data() {
    if (!usable({"data.kind"}) || !config_.data.has_clicks()) return;
    exclude("train.mixup", config_.train.mixup > 0.0, "data.kind", true, "bags of ids cannot be mixed");
    exclude("data.kind", true, "model.kind", !config_.model.has_embeddings(),
            "only \"ctr-dnn\" has embeddings for the ids of click data");
    exclude("data.deal", config_.data.deal != ShardBy::samples, "run.reproducible", config_.run.reproducible,
            "the samples of a step must not depend on the number of workers");
  }

  void image_sizes() {
    if (!usable({"data.kind", "data.image_size", "data.short_side"})) return;
    if (config_.data.image_size <= config_.data.short_side) return;
    mistakes_.add(origin({"data.image_size", "data.short_side"}),
                  cat("data.image_size must be at most data.short_side: validation crops the one from the "
                      "other, got ",
                      config_.data.image_size, " and ", config_.data.short_side));
  }

  void range(std::string_view path, const std::vector<double>& values) {
    if (!usable({"data.kind", path}) || values[0] <= values[1]) return;
    mistakes_.add(origin({path}), cat(path, " must be [least, largest], got ", toml_text(values)));
  }

  void crop() {
    range("data.crop_area", config_.data.crop_area);
    range("data.crop_aspect", config_.data.crop_aspect);
  }

  void hue() {
    if (!usable({"data.kind", "data.color_jitter"}) || config_.data.color_jitter[3] <= 0.5) return;
    mistakes_.add(
        origin({"data.color_jitter"}),
        cat("data.color_jitter: the hue, its last value, must be at most 0.5 (half the circle), got ",
            config_.data.color_jitter[3]));
  }

  void buckets() {
    if (!usable({"strategy.bucket_mb", "strategy.last_bucket_mb"})) return;
    const ReductionConfig& reduction = config_.reduction;
    if (reduction.last_bucket_mb <= reduction.bucket_mb) return;
    mistakes_.add(origin({"strategy.last_bucket_mb", "strategy.bucket_mb"}),
                  cat("strategy.last_bucket_mb must be at most strategy.bucket_mb (", reduction.bucket_mb,
                      "), got ", reduction.last_bucket_mb));
  }

  void ranks_per_group() {
    if (!usable({"strategy.all_reduce", "strategy.ranks_per_group"})) return;
    const ReductionConfig& reduction = config_.reduction;
    const AllReduceKind kind = reduction.all_reduce;
    const LocalSgdConfig* local = config_.local_sgd();
    const bool in_groups =
        kind != AllReduceKind::mpi && kind != AllReduceKind::shared_memory && kind != AllReduceKind::nccl;
    if (reduction.ranks_per_group == 0 || in_groups || (local != nullptr && local->group_all_reduce)) return;
    mistakes_.add(origin({"strategy.ranks_per_group"}),
                  cat("strategy.ranks_per_group needs a strategy.all_reduce in groups (\"hierarchical\", "
                      "\"nccl-hierarchical\", \"nccl-mpi\") or \"auto\", it is ",
                      quoted(word(kind))));
  }

  void nccl() {
    const ReductionConfig& reduction = config_.reduction;
    if (!usable({"strategy.all_reduce"}) || !uses_nccl(reduction.all_reduce)) return;
    const std::string all_reduce = cat("strategy.all_reduce = ", quoted(word(reduction.all_reduce)));
    const bool between_hosts = reduction.all_reduce == AllReduceKind::nccl_mpi;
    if (usable({"device.kind"}) && config_.device.kind != DeviceKind::cuda)
      mistakes_.add(
          origin({"strategy.all_reduce"}),
          cat(all_reduce, " needs device.kind = \"cuda\": NCCL adds in the memory of GPUs; use \"auto\""));
    if (usable({"strategy.wire"}) && reduction.wire != Precision::float32 && !between_hosts)
      mistakes_.add(origin({"strategy.wire", "strategy.all_reduce"}),
                    cat("strategy.wire = ", quoted(word(reduction.wire)), " and ", all_reduce,
                        " exclude each other: NCCL adds what is there, in float32; use \"nccl-mpi\", whose "
                        "groups exchange half values"));
    const AllReduceConfig* strategy = config_.all_reduce();
    if (usable({"strategy.communicators"}) && strategy != nullptr && strategy->communicators > 1 &&
        between_hosts)
      mistakes_.add(
          origin({"strategy.communicators", "strategy.all_reduce"}),
          cat("strategy.communicators must be 1 with ", all_reduce,
              ": NCCL wants all its work from one thread, in one order; got ", strategy->communicators));
    exclude("strategy.all_reduce", true, "run.reproducible", config_.run.reproducible,
            "NCCL adds in an order of its own; use \"auto\" or \"mpi\"");
  }

  void wire() {
    if (!usable({"strategy.all_reduce", "strategy.wire"})) return;
    const ReductionConfig& reduction = config_.reduction;
    if (reduction.wire == Precision::float32 || reduction.all_reduce != AllReduceKind::shared_memory) return;
    mistakes_.add(origin({"strategy.wire"}),
                  cat("strategy.wire = ", quoted(word(reduction.wire)),
                      " and strategy.all_reduce = \"shared-memory\" exclude each other: in shared memory "
                      "nothing travels"));
  }

  void local_sgd() {
    if (!usable({"strategy.kind"}) || config_.local_sgd() == nullptr) return;
    const LocalSgdConfig& strategy = *config_.local_sgd();
    exclude("strategy.begin_step", strategy.begin_step > 0, "strategy.begin_epoch", strategy.begin_epoch > 0,
            "give one of them");
    exclude("strategy.group_all_reduce", strategy.group_all_reduce, "strategy.before_begin",
            strategy.before_begin == BeforeBegin::all_reduce, "before_begin = \"average\" comes to the same");
    const OptimizerKind optimizer = config_.optimizer.kind;
    if (usable({"optimizer.kind"}) && strategy.adaptive && optimizer != OptimizerKind::sgd &&
        optimizer != OptimizerKind::momentum && optimizer != OptimizerKind::nesterov)
      mistakes_.add(
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
      mistakes_.add(origin({"strategy.before_begin"}),
                    "strategy.before_begin = \"all-reduce\" needs strategy.begin_step or "
                    "strategy.begin_epoch: else nothing comes before the beginning");
    exclude("model.batch_norm", config_.model.synchronises_batch_norm(), "strategy.kind", true,
            "workers that step alone cannot wait for each other's batches; use \"local\", or strategy.kind = "
            "\"all-reduce\"");
    exclude("strategy.statistics", strategy.statistics != LocalStatistics::average, "model.kind",
            config_.model.kind != "resnet", "this model has no batch norm");
  }

  void roles() {
    if (!usable({"strategy.kind", "roles.kind"}) || !config_.roles.kind) return;
    const bool served = config_.server() != nullptr;
    if (served != (config_.roles.kind == RolesKind::collective)) return;
    mistakes_.add(origin({"roles.kind"}),
                  served
                      ? std::string("roles.kind = \"collective\" has no servers: strategy.kind = "
                                    "\"parameter-server\" needs \"symmetric\", \"ratio\" or \"user-defined\"")
                      : cat("roles.kind = ", quoted(word(*config_.roles.kind)),
                            " needs strategy.kind = \"parameter-server\", it is ",
                            quoted(word(config_.strategy_kind())), ", where all ranks work"));
  }

  void parameter_server() {
    if (!usable({"strategy.kind", "server.mode"}) || config_.server() == nullptr) return;
    const ServerMode mode = config_.server()->mode;
    const bool asynchronous = mode == ServerMode::async || mode == ServerMode::half_async;
    const OptimizerKind optimizer = config_.optimizer.kind;
    const bool whole_tensors = optimizer == OptimizerKind::lars || optimizer == OptimizerKind::lamb;
    exclude("train.gradient_clip_norm", config_.train.gradient_clip_norm > 0.0, "server.mode", asynchronous,
            "no server sees the whole gradient of a worker; use \"sync\" or \"geo\"");
    exclude("optimizer.kind", whole_tensors && asynchronous, "server.slice_parameters",
            config_.server()->slice_parameters,
            cat(quoted(word(optimizer)),
                " needs the norm of whole tensors; use \"sync\" or slice_parameters = false"));
    exclude("model.batch_norm", config_.model.synchronises_batch_norm(), "server.mode",
            mode != ServerMode::sync, "workers that do not wait for each other have no batch in common");
    const bool rows = config_.model.has_embeddings();
    exclude("model.kind", rows && whole_tensors, "optimizer.kind", true,
            cat(quoted(word(optimizer)), " needs the norm of whole tensors, and a table of rows has none"));
    exclude("device.precision", rows && config_.device.precision == Precision::float16, "server.mode",
            mode == ServerMode::half_async,
            "the rows of a step that overflows would be pushed with those of others; use \"bfloat16\" or "
            "\"async\"");
    exclude("checkpoint.per_rank", config_.checkpoint.per_rank, "strategy.kind", true,
            "the servers hold the one model");
  }

  void overlap() {
    if (!usable({"strategy.overlap", "strategy.communicators"})) return;
    const AllReduceConfig* strategy = config_.all_reduce();
    if (strategy == nullptr || strategy->overlap || strategy->communicators == 1) return;
    mistakes_.add(origin({"strategy.overlap", "strategy.communicators"}),
                  cat("strategy.overlap = false and strategy.communicators = ", strategy->communicators,
                      " exclude each other: without overlap one bucket is reduced after another"));
  }

  void reproducible() {
    if (!usable({"run.reproducible"}) || !config_.run.reproducible) return;
    const TrainConfig& train = config_.train;
    const auto refuse = [this](bool wrong, std::string_view path, std::string_view what) {
      if (wrong && usable({path}))
        mistakes_.add(origin({path, "run.reproducible"}), cat("run.reproducible ", what));
    };
    refuse(config_.all_reduce() == nullptr, "strategy.kind", "needs strategy.kind = \"all-reduce\"");
    refuse(train.batch_size > 0, "train.batch_size",
           "needs train.global_batch_size instead of train.batch_size: the samples of a step must not depend "
           "on the number of workers");
    refuse(train.global_batch_size % config_.run.virtual_shards != 0, "train.global_batch_size",
           cat("needs a train.global_batch_size that is a multiple of run.virtual_shards (",
               config_.run.virtual_shards, "), got ", train.global_batch_size));
    const std::int64_t pairs = 2 * config_.run.virtual_shards;
    refuse(train.mixup > 0.0 && train.global_batch_size % pairs != 0, "train.mixup",
           cat("with train.mixup needs a train.global_batch_size that is a multiple of twice "
               "run.virtual_shards (",
               pairs, "): pairs are mixed inside a shard"));
    refuse(train.accumulate_steps > 1, "train.accumulate_steps",
           "and train.accumulate_steps exclude each other: every shard is a micro-step already; give more "
           "run.virtual_shards");
    refuse(config_.device.threads == 0, "device.threads",
           "needs a number in device.threads, such as 1: 0 takes what the ranks of a host leave each other, "
           "and sums inside an operation depend on it");
    refuse(config_.reduction.wire != Precision::float32, "strategy.wire",
           cat("and strategy.wire = ", quoted(word(config_.reduction.wire)),
               " exclude each other: what is rounded on the way depends on the number of workers"));
    refuse(config_.model.synchronises_batch_norm(), "model.batch_norm",
           "and model.batch_norm = \"synchronised\" exclude each other: every shard has statistics of its "
           "own");
  }

  void emulated_straggler() {
    const std::string table = "run.emulate_straggler";
    const std::string rank = table + ".rank";
    const std::string factor = table + ".slow_factor";
    const std::string pause = table + ".pause_s";
    const std::string every = table + ".every";
    if (!usable({rank, factor, pause, every})) return;
    const EmulatedStragglerConfig& straggler = config_.run.emulate_straggler;
    const bool slow = given_.find(factor) != nullptr;
    const bool pauses = given_.find(pause) != nullptr;
    if (given_.find(rank) == nullptr) {
      const std::string turns = table + ".take_turns";
      if (slow || pauses || given_.find(every) != nullptr || given_.find(turns) != nullptr)
        mistakes_.add(origin({factor, pause, every, turns}), rank + " is missing: the worker to make slow");
    } else if (slow == pauses) {
      mistakes_.add(origin({slow ? pause : rank}),
                    cat(table, slow ? ": slow_factor and pause_s exclude each other; give one of them"
                                    : " needs slow_factor or pause_s"));
    }
    const double patience_s = config_.run.watchdog_s;
    if (usable({"run.watchdog_s"}) && patience_s > 0 && straggler.pause_s >= patience_s)
      mistakes_.add(origin({pause}), cat(pause, " must be less than run.watchdog_s (", patience_s,
                                         "), which else ends the job, got ", straggler.pause_s));
  }

  void no_decay() {
    if (!usable({"optimizer.no_decay"})) return;
    std::vector<NoDecay> kinds = config_.optimizer.no_decay;
    std::sort(kinds.begin(), kinds.end());
    const auto twice = std::adjacent_find(kinds.begin(), kinds.end());
    if (twice == kinds.end()) return;
    mistakes_.add(origin({"optimizer.no_decay"}),
                  "optimizer.no_decay names " + quoted(word(*twice)) + " twice");
  }

 private:
  void exclude(std::string_view one, bool has_one, std::string_view other, bool has_other,
               std::string_view remedy) {
    if (!usable({one, other}) || !has_one || !has_other) return;
    mistakes_.add(origin({one, other}), cat(one, " and ", other, " exclude each other here: ", remedy));
  }

  bool usable(std::initializer_list<std::string_view> paths) const {
    return std::none_of(paths.begin(), paths.end(),
                        [&](std::string_view path) { return given_.is_unusable(path); });
  }

  /// Where the first of these keys that was given at all was written.
  Origin origin(std::initializer_list<std::string_view> paths) const {
    for (const std::string_view path : paths) {
      if (const Given* given = given_.find(path)) return given->origin;
    }
    return {};
  }

  const Config& config_;
  const GivenValues& given_;
  Mistakes& mistakes_;
};

}  // namespace

void check_rules_over_several_keys(const Config& config, const GivenValues& given, Mistakes& mistakes) {
  Rules rules(config, given, mistakes);
  rules.batch_size();
  rules.end_of_training();
  rules.warm_up();
  rules.precision();
  rules.milestones();
  rules.final_learning_rate();
  rules.validation_data();
  rules.validation_root();
  rules.click_data();
  rules.click_model();
  rules.image_sizes();
  rules.crop();
  rules.hue();
  rules.buckets();
  rules.ranks_per_group();
  rules.wire();
  rules.nccl();
  rules.local_sgd();
  rules.roles();
  rules.parameter_server();
  rules.overlap();
  rules.reproducible();
  rules.no_decay();
  rules.emulated_straggler();
}

}  // namespace flotilla::config
