// SPDX-License-Identifier: Apache-2.0
#include "src/config/rules.hpp"

#include <algorithm>
#include <array>
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
    if (config_.strategy.kind != "parameter-server")
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
    if (config_.strategy.last_bucket_mb <= config_.strategy.bucket_mb) return;
    mistakes_.add(origin({"strategy.last_bucket_mb", "strategy.bucket_mb"}),
                  cat("strategy.last_bucket_mb must be at most strategy.bucket_mb (",
                      config_.strategy.bucket_mb, "), got ", config_.strategy.last_bucket_mb));
  }

  void ranks_per_group() {
    if (!usable({"strategy.all_reduce", "strategy.ranks_per_group"})) return;
    const StrategyConfig& strategy = config_.strategy;
    constexpr std::array<std::string_view, 4> in_groups = {"auto", "hierarchical", "nccl-hierarchical",
                                                           "nccl-mpi"};
    if (strategy.ranks_per_group == 0 || std::ranges::count(in_groups, strategy.all_reduce) > 0 ||
        strategy.group_all_reduce)
      return;
    mistakes_.add(origin({"strategy.ranks_per_group"}),
                  cat("strategy.ranks_per_group needs a strategy.all_reduce in groups (\"hierarchical\", "
                      "\"nccl-hierarchical\", \"nccl-mpi\") or \"auto\", it is ",
                      quoted(strategy.all_reduce)));
  }

  void nccl() {
    const StrategyConfig& strategy = config_.strategy;
    if (!usable({"strategy.all_reduce"}) || !strategy.all_reduce.starts_with("nccl")) return;
    const std::string word = cat("strategy.all_reduce = ", quoted(strategy.all_reduce));
    const bool between_hosts = strategy.all_reduce == "nccl-mpi";
    if (usable({"device.kind"}) && config_.device.kind != DeviceKind::cuda)
      mistakes_.add(
          origin({"strategy.all_reduce"}),
          cat(word, " needs device.kind = \"cuda\": NCCL adds in the memory of GPUs; use \"auto\""));
    if (usable({"strategy.wire"}) && strategy.wire != "float32" && !between_hosts)
      mistakes_.add(origin({"strategy.wire", "strategy.all_reduce"}),
                    cat("strategy.wire = ", quoted(strategy.wire), " and ", word,
                        " exclude each other: NCCL adds what is there, in float32; use \"nccl-mpi\", whose "
                        "groups exchange half values"));
    if (usable({"strategy.communicators"}) && strategy.communicators > 1 && between_hosts)
      mistakes_.add(
          origin({"strategy.communicators", "strategy.all_reduce"}),
          cat("strategy.communicators must be 1 with ", word,
              ": NCCL wants all its work from one thread, in one order; got ", strategy.communicators));
    exclude("strategy.all_reduce", true, "run.reproducible", config_.run.reproducible,
            "NCCL adds in an order of its own; use \"auto\" or \"mpi\"");
  }

  void wire() {
    if (!usable({"strategy.all_reduce", "strategy.wire"})) return;
    if (config_.strategy.wire == "float32" || config_.strategy.all_reduce != "shared-memory") return;
    mistakes_.add(origin({"strategy.wire"}),
                  cat("strategy.wire = ", quoted(config_.strategy.wire),
                      " and strategy.all_reduce = \"shared-memory\" exclude each other: in shared memory "
                      "nothing travels"));
  }

  void local_sgd() {
    const StrategyConfig& strategy = config_.strategy;
    if (!usable({"strategy.kind"}) || strategy.kind == "all-reduce" || strategy.kind == "parameter-server")
      return;
    exclude("strategy.begin_step", strategy.begin_step > 0, "strategy.begin_epoch", strategy.begin_epoch > 0,
            "give one of them");
    exclude("strategy.group_all_reduce", strategy.group_all_reduce, "strategy.before_begin",
            strategy.before_begin == "all-reduce", "before_begin = \"average\" comes to the same");
    const OptimizerKind optimizer = config_.optimizer.kind;
    if (usable({"optimizer.kind"}) && strategy.kind == "adaptive-local-sgd" &&
        optimizer != OptimizerKind::sgd && optimizer != OptimizerKind::momentum &&
        optimizer != OptimizerKind::nesterov)
      mistakes_.add(
          origin({"strategy.kind", "optimizer.kind"}),
          cat("strategy.kind = \"adaptive-local-sgd\" follows the learning rate of plain gradient "
              "descent: use optimizer.kind \"sgd\", \"momentum\" or \"nesterov\", or strategy.kind = "
              "\"local-sgd\"; it is ",
              quoted(word(optimizer))));
    exclude("strategy.momentum", strategy.momentum != "local", "optimizer.kind",
            optimizer == OptimizerKind::sgd, "plain \"sgd\" keeps no state");
    if (usable({"strategy.before_begin", "strategy.begin_step", "strategy.begin_epoch"}) &&
        strategy.before_begin == "all-reduce" && strategy.begin_step == 0 && strategy.begin_epoch == 0.0)
      mistakes_.add(origin({"strategy.before_begin"}),
                    "strategy.before_begin = \"all-reduce\" needs strategy.begin_step or "
                    "strategy.begin_epoch: else nothing comes before the beginning");
    exclude("model.batch_norm", config_.model.synchronises_batch_norm(), "strategy.kind", true,
            "workers that step alone cannot wait for each other's batches; use \"local\", or strategy.kind = "
            "\"all-reduce\"");
    exclude("strategy.statistics", strategy.statistics != "average", "model.kind",
            config_.model.kind != "resnet", "this model has no batch norm");
  }

  void roles() {
    if (!usable({"strategy.kind", "roles.kind"}) || config_.roles.kind.empty()) return;
    const bool served = config_.strategy.kind == "parameter-server";
    if (served != (config_.roles.kind == "collective")) return;
    mistakes_.add(origin({"roles.kind"}),
                  served
                      ? std::string("roles.kind = \"collective\" has no servers: strategy.kind = "
                                    "\"parameter-server\" needs \"symmetric\", \"ratio\" or \"user-defined\"")
                      : cat("roles.kind = ", quoted(config_.roles.kind),
                            " needs strategy.kind = \"parameter-server\", it is ",
                            quoted(config_.strategy.kind), ", where all ranks work"));
  }

  void parameter_server() {
    if (!usable({"strategy.kind", "server.mode"}) || config_.strategy.kind != "parameter-server") return;
    const std::string& mode = config_.server.mode;
    const OptimizerKind optimizer = config_.optimizer.kind;
    const bool whole_tensors = optimizer == OptimizerKind::lars || optimizer == OptimizerKind::lamb;
    exclude("train.gradient_clip_norm", config_.train.gradient_clip_norm > 0.0, "server.mode",
            mode == "async" || mode == "half-async",
            "no server sees the whole gradient of a worker; use \"sync\" or \"geo\"");
    exclude("optimizer.kind", whole_tensors && (mode == "async" || mode == "half-async"),
            "server.slice_parameters", config_.server.slice_parameters,
            cat(quoted(word(optimizer)),
                " needs the norm of whole tensors; use \"sync\" or slice_parameters = false"));
    exclude("model.batch_norm", config_.model.synchronises_batch_norm(), "server.mode", mode != "sync",
            "workers that do not wait for each other have no batch in common");
    const bool rows = config_.model.has_embeddings();
    exclude("model.kind", rows && whole_tensors, "optimizer.kind", true,
            cat(quoted(word(optimizer)), " needs the norm of whole tensors, and a table of rows has none"));
    exclude("device.precision", rows && config_.device.precision == Precision::float16, "server.mode",
            mode == "half-async",
            "the rows of a step that overflows would be pushed with those of others; use \"bfloat16\" or "
            "\"async\"");
    exclude("checkpoint.per_rank", config_.checkpoint.per_rank, "strategy.kind", true,
            "the servers hold the one model");
  }

  void overlap() {
    if (!usable({"strategy.overlap", "strategy.communicators"})) return;
    if (config_.strategy.overlap || config_.strategy.communicators == 1) return;
    mistakes_.add(
        origin({"strategy.overlap", "strategy.communicators"}),
        cat("strategy.overlap = false and strategy.communicators = ", config_.strategy.communicators,
            " exclude each other: without overlap one bucket is reduced after another"));
  }

  void reproducible() {
    if (!usable({"run.reproducible"}) || !config_.run.reproducible) return;
    const TrainConfig& train = config_.train;
    const auto refuse = [this](bool wrong, std::string_view path, std::string_view what) {
      if (wrong && usable({path}))
        mistakes_.add(origin({path, "run.reproducible"}), cat("run.reproducible ", what));
    };
    refuse(config_.strategy.kind != "all-reduce", "strategy.kind", "needs strategy.kind = \"all-reduce\"");
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
    refuse(config_.strategy.wire != "float32", "strategy.wire",
           cat("and strategy.wire = ", quoted(config_.strategy.wire),
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
