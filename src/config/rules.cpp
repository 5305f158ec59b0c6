// SPDX-License-Identifier: Apache-2.0
#include "src/config/rules.hpp"

#include <algorithm>
#include <string_view>

#include "src/config/keys.hpp"
#include "src/config/layer_texts.hpp"
#include "src/config/rate_factors.hpp"
#include "src/config/rule_checks.hpp"
#include "src/config/suggestions.hpp"

namespace flotilla::config {
namespace {

class Rules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void batch_size() {
    if (!usable({"train.batch_size", "train.global_batch_size"})) return;
    const TrainConfig& train = config.train;
    if (train.batch_size == 0 && train.global_batch_size == 0) {
      mistakes.add({}, "train.batch_size or train.global_batch_size must be given");
    } else if (train.batch_size > 0 && train.global_batch_size > 0) {
      mistakes.add(origin({"train.global_batch_size"}),
                   "train.global_batch_size and train.batch_size exclude each other; give one of them");
    }
    if (usable({"train.accumulate_steps"}) && train.global_batch_size % train.accumulate_steps != 0) {
      mistakes.add(origin({"train.accumulate_steps", "train.global_batch_size"}),
                   cat("train.global_batch_size must be a multiple of train.accumulate_steps, got ",
                       train.global_batch_size, " and ", train.accumulate_steps));
    }
  }

  void end_of_training() {
    if (!usable({"train.epochs", "train.steps", "train.seconds", "schedule.kind"})) return;
    if (config.train.epochs > 0 || config.train.steps > 0) return;
    const ScheduleKind kind = config.schedule.kind;
    if (config.train.seconds <= 0.0) {
      mistakes.add(
          origin({"train.epochs", "train.steps"}),
          "train.epochs, train.steps or train.seconds must be given and positive: else training has no end");
    } else if (kind != ScheduleKind::constant && kind != ScheduleKind::piecewise) {
      mistakes.add(origin({"schedule.kind"}),
                   "schedule.kind decays to an end that train.seconds alone does not tell: give train.epochs "
                   "or train.steps as well, or schedule.kind = \"constant\"");
    }
  }

  void resume_with() {
    if (!usable({"run.resume_with"})) return;
    for (const std::string& path : config.run.resume_with) {
      bool known = false;
      bool changeable = false;
      for (const Key& key : all_keys()) {
        if (key.path != path && !key.path.starts_with(path + ".")) continue;
        known = true;
        changeable = changeable || key.on_resume != OnResume::must_match;
      }
      if (changeable) continue;
      const auto dot = path.rfind('.');
      const std::string meant =
          dot == path.npos ? suggest("", path).text : suggest(path.substr(0, dot), path.substr(dot + 1)).text;
      mistakes.add(origin({"run.resume_with"}),
                   known ? cat("run.resume_with: ", path,
                               " must be the checkpoint's; start another run, from its weights "
                               "(model.initial_weights) where shapes agree")
                         : cat("run.resume_with: ", quoted(path), " is no key or table", meant));
    }
  }

  void rates() {
    for (const std::string& entry : config.optimizer.rates)
      if (!rate_factor(entry))
        mistakes.add(
            origin({"optimizer.rates"}),
            cat("optimizer.rates holds patterns of names with a positive factor, as \"fc.* 10\", got ",
                quoted(entry)));
  }

  void fixed_statistics() {
    if (config.model.fixed_statistics.empty() || config.server() == nullptr) return;
    mistakes.add(origin({"model.fixed_statistics", "strategy.kind"}),
                 "model.fixed_statistics is not done with parameter servers, which keep the statistics: use "
                 "another strategy.kind");
  }

  void best_checkpoint() {
    if (!usable({"checkpoint.best", "train.patience", "train.target"})) return;
    const BestMetric best = config.checkpoint.best;
    if (config.train.patience > 0 && config.validation.every == 0)
      mistakes.add(
          origin({"train.patience", "validation.every"}),
          "train.patience counts validations, and validation.every = 0 asks for none before the end");
    if (config.train.target > 0 && config.validation.every == 0)
      mistakes.add(origin({"train.target", "validation.every"}),
                   "train.target is looked for in validations, and validation.every = 0 asks for none before "
                   "the end");
    if (best == BestMetric::none) {
      if (config.train.patience > 0)
        mistakes.add(origin({"train.patience"}),
                     "train.patience needs checkpoint.best, the figure of a validation that is to improve");
      if (config.train.target > 0)
        mistakes.add(origin({"train.target"}),
                     "train.target needs checkpoint.best, the figure of a validation that is to reach it");
      return;
    }
    if (!config.data.validation.given)
      mistakes.add(origin({"checkpoint.best"}), cat("checkpoint.best = ", quoted(word(best)),
                                                    " is a figure of validations: name data.validation"));
    if ((best == BestMetric::auc || best == BestMetric::log_loss) && !config.model.has_embeddings())
      mistakes.add(origin({"checkpoint.best"}),
                   cat("checkpoint.best = ", quoted(word(best)),
                       " needs model.kind = \"ctr-dnn\", which predicts clicks"));
  }

  void mlperf_log() {
    if (!config.run.mlperf_log || !usable({"model.kind", "checkpoint.best", "train.target"})) return;
    if (config.model.kind != "resnet" || config.checkpoint.best != BestMetric::accuracy_top1 ||
        config.train.target == 0.0)
      mistakes.add(origin({"run.mlperf_log"}),
                   "run.mlperf_log is of runs to an accuracy: it needs model.kind = \"resnet\", "
                   "checkpoint.best = \"accuracy_top1\" and train.target");
  }

  void weight_average() {
    if (!usable({"train.average_decay", "strategy.kind"})) return;
    if (config.train.average_decay > 0.0 && config.all_reduce() == nullptr)
      mistakes.add(
          origin({"train.average_decay", "strategy.kind"}),
          "train.average_decay needs strategy.kind = \"all-reduce\", whose workers hold one model after "
          "each step: leave it out, or use checkpoint.best");
  }

  void layers() {
    if (!usable({"model.kind", "model.layers"})) return;
    for (std::size_t i = 0; i < config.model.layers.size(); ++i) {
      try {
        parse_layer(config.model.layers[i]);
      } catch (const UserError& error) {
        mistakes.add(given.origin_of("model.layers", i),
                     cat("model.layers[", i, "] = ", quoted(config.model.layers[i]), ": ", error.what()));
      }
    }
  }

  void warm_up() {
    if (!usable({"train.epochs", "schedule.warmup_epochs"}) || config.train.epochs == 0) return;
    if (config.schedule.warmup_epochs < static_cast<double>(config.train.epochs)) return;
    mistakes.add(origin({"schedule.warmup_epochs", "train.epochs"}),
                 cat("schedule.warmup_epochs must be less than train.epochs, got ",
                     config.schedule.warmup_epochs, " and ", config.train.epochs));
  }

  void precision() {
    if (!usable({"device.kind", "device.precision"})) return;
    const DeviceConfig& device = config.device;
    if (device.kind != DeviceKind::cpu && device.precision == DevicePrecision::automatic)
      mistakes.add(
          origin({"device.precision", "device.kind"}),
          cat("device.precision = \"auto\" needs device.kind = \"cpu\", whose processors it asks: for ",
              quoted(word(device.kind)), " name the precision"));
    if (device.kind != DeviceKind::cpu || device.precision != DevicePrecision::float16) return;
    mistakes.add(origin({"device.precision", "device.kind"}),
                 "device.precision = \"float16\" needs device.kind = \"cuda\", or \"reference\", which shows "
                 "slowly what it does to a model: \"cpu\" computes in float32 and bfloat16; use \"bfloat16\" "
                 "(docs/precision.md says why)");
  }

  void milestones() {
    if (!usable({"schedule.kind", "schedule.milestones"})) return;
    const auto& epochs = config.schedule.milestones;
    const auto unordered = std::adjacent_find(epochs.begin(), epochs.end(), std::greater_equal<>());
    if (unordered == epochs.end()) return;
    mistakes.add(
        given.origin_of("schedule.milestones", static_cast<std::size_t>(unordered + 1 - epochs.begin())),
        cat("schedule.milestones must increase, got ", toml_text(*unordered), " before ",
            toml_text(*(unordered + 1))));
  }

  void final_learning_rate() {
    if (!usable({"schedule.kind", "schedule.learning_rate", "schedule.final_learning_rate"})) return;
    if (config.schedule.final_learning_rate <= config.schedule.learning_rate) return;
    mistakes.add(origin({"schedule.final_learning_rate"}),
                 cat("schedule.final_learning_rate must be at most schedule.learning_rate (",
                     config.schedule.learning_rate, "), got ", config.schedule.final_learning_rate));
  }

  void validation_data() {
    if (!usable({"data.kind", "data.validation.images", "data.validation.labels"})) return;
    const DataSourceConfig& source = config.data.validation;
    if (source.images.empty() == source.labels.empty()) return;
    const bool has_images = !source.images.empty();
    mistakes.add(origin({has_images ? "data.validation.images" : "data.validation.labels"}),
                 cat("data.validation needs images and labels, or neither of them: ",
                     has_images ? "labels" : "images", " are missing"));
  }

  void validation_path() {
    const DataSourceConfig& source = config.data.validation;
    const auto needs_path = [&](const std::string& value, const char* key, const char* what) {
      if (!usable({"data.kind", "data.validation.path", key}) || value.empty()) return;
      if (!source.path.empty() || given.find("data.validation.path") != nullptr) return;  // empty: none
      mistakes.add(origin({key}), cat(key, " needs data.validation.path: ", what));
    };
    needs_path(source.root, "data.validation.root", "the list of the images in it");
    needs_path(source.input_array, "data.validation.inputs", "the file that this array is in");
    needs_path(source.target_array, "data.validation.targets", "the file that this array is in");
  }

  void click_model() {
    if (!usable({"model.kind", "strategy.kind"}) || !config.model.has_embeddings()) return;
    if (config.server() == nullptr)
      mistakes.add(origin({"strategy.kind", "model.kind"}),
                   "model.kind = \"ctr-dnn\" needs strategy.kind = \"parameter-server\": the rows of its "
                   "embeddings live on servers");
    exclude("train.accumulate_steps", config.train.accumulate_steps > 1, "model.kind", true,
            "give a larger train.batch_size, or server.mode = \"half-async\"");
  }

  void click_data() {
    if (!usable({"data.kind"}) || !config.data.has_clicks()) return;
    exclude("train.mixup", config.train.mixup > 0.0, "data.kind", true, "bags of ids cannot be mixed");
    exclude("train.cutmix", config.train.cutmix > 0.0, "data.kind", true, "bags of ids cannot be mixed");
    exclude("data.kind", true, "model.kind", !config.model.has_embeddings(),
            "only \"ctr-dnn\" has embeddings for the ids of click data");
  }

  void cut_images() {
    if (!usable({"data.kind", "data.shape", "train.cutmix"}) || config.train.cutmix == 0.0) return;
    if (config.data.kind == DataKind::random && config.data.shape.size() != 3)
      mistakes.add(origin({"train.cutmix", "data.shape"}),
                   cat("train.cutmix exchanges parts of images, but a sample has ", config.data.shape.size(),
                       " sizes instead of channels, height and width (data.shape)"));
  }

  void image_sizes() {
    if (!usable({"data.kind", "data.image_size", "data.short_side"})) return;
    if (config.data.image_size <= config.data.short_side) return;
    mistakes.add(origin({"data.image_size", "data.short_side"}),
                 cat("data.image_size must be at most data.short_side: validation crops the one from the "
                     "other, got ",
                     config.data.image_size, " and ", config.data.short_side));
  }

  void range(std::string_view path, const std::vector<double>& values) {
    if (!usable({"data.kind", path}) || values[0] <= values[1]) return;
    mistakes.add(origin({path}), cat(path, " must be [least, largest], got ", toml_text(values)));
  }

  void ranges() {
    range("data.crop_area", config.data.crop_area);
    range("data.crop_aspect", config.data.crop_aspect);
    range("data.erase_area", config.data.erase_area);
    range("data.erase_aspect", config.data.erase_aspect);
  }

  void hue() {
    if (!usable({"data.kind", "data.color_jitter"}) || config.data.color_jitter[3] <= 0.5) return;
    mistakes.add(
        origin({"data.color_jitter"}),
        cat("data.color_jitter: the hue, its last value, must be at most 0.5 (half the circle), got ",
            config.data.color_jitter[3]));
  }

  void reproducible() {
    if (!usable({"run.reproducible"}) || !config.run.reproducible) return;
    const TrainConfig& train = config.train;
    const auto refuse = [this](bool wrong, std::string_view path, std::string_view what) {
      if (wrong && usable({path}))
        mistakes.add(origin({path, "run.reproducible"}), cat("run.reproducible ", what));
    };
    refuse(config.all_reduce() == nullptr, "strategy.kind", "needs strategy.kind = \"all-reduce\"");
    refuse(train.batch_size > 0, "train.batch_size",
           "needs train.global_batch_size instead of train.batch_size: the samples of a step must not depend "
           "on the number of workers");
    refuse(train.global_batch_size % config.run.virtual_shards != 0, "train.global_batch_size",
           cat("needs a train.global_batch_size that is a multiple of run.virtual_shards (",
               config.run.virtual_shards, "), got ", train.global_batch_size));
    const std::int64_t pairs = 2 * config.run.virtual_shards;
    refuse(train.mixes_pairs() && train.global_batch_size % pairs != 0, train.pairs_key(),
           cat("with ", train.pairs_key(),
               " needs a train.global_batch_size that is a multiple of twice "
               "run.virtual_shards (",
               pairs, "): pairs are mixed inside a shard"));
    refuse(train.accumulate_steps > 1, "train.accumulate_steps",
           "and train.accumulate_steps exclude each other: every shard is a micro-step already; give more "
           "run.virtual_shards");
    refuse(config.device.threads == 0, "device.threads",
           "needs a number in device.threads, such as 1: 0 takes what the ranks of a host leave each other, "
           "and sums inside an operation depend on it");
    refuse(config.reduction.wire != Precision::float32, "strategy.wire",
           cat("and strategy.wire = ", quoted(word(config.reduction.wire)),
               " exclude each other: what is rounded on the way depends on the number of workers"));
    refuse(config.model.synchronises_batch_norm(), "model.batch_norm",
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
    const EmulatedStragglerConfig& straggler = config.run.emulate_straggler;
    const bool slow = given.find(factor) != nullptr;
    const bool pauses = given.find(pause) != nullptr;
    if (given.find(rank) == nullptr) {
      const std::string turns = table + ".take_turns";
      if (slow || pauses || given.find(every) != nullptr || given.find(turns) != nullptr)
        mistakes.add(origin({factor, pause, every, turns}), rank + " is missing: the worker to make slow");
    } else if (slow == pauses) {
      mistakes.add(origin({slow ? pause : rank}),
                   cat(table, slow ? ": slow_factor and pause_s exclude each other; give one of them"
                                   : " needs slow_factor or pause_s"));
    }
    const double patience_s = config.run.watchdog_s;
    if (usable({"run.watchdog_s"}) && patience_s > 0 && straggler.pause_s >= patience_s)
      mistakes.add(origin({pause}), cat(pause, " must be less than run.watchdog_s (", patience_s,
                                        "), which else ends the job, got ", straggler.pause_s));
  }

  void no_decay() {
    if (!usable({"optimizer.no_decay"})) return;
    std::vector<NoDecay> kinds = config.optimizer.no_decay;
    std::sort(kinds.begin(), kinds.end());
    const auto twice = std::adjacent_find(kinds.begin(), kinds.end());
    if (twice == kinds.end()) return;
    mistakes.add(origin({"optimizer.no_decay"}),
                 "optimizer.no_decay names " + quoted(word(*twice)) + " twice");
  }
};

}  // namespace

void check_rules_over_several_keys(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  Rules rules(config, given, mistakes);
  rules.batch_size();
  rules.end_of_training();
  rules.resume_with();
  rules.rates();
  rules.fixed_statistics();
  rules.best_checkpoint();
  rules.weight_average();
  rules.mlperf_log();
  rules.layers();
  rules.warm_up();
  rules.precision();
  rules.milestones();
  rules.final_learning_rate();
  rules.validation_data();
  rules.validation_path();
  rules.click_data();
  rules.click_model();
  rules.cut_images();
  rules.image_sizes();
  rules.ranges();
  rules.hue();
  check_array_rules(config, given, mistakes);
  check_loss_rules(config, given, mistakes);
  check_strategy_rules(config, given, mistakes);
  rules.reproducible();
  rules.no_decay();
  rules.emulated_straggler();
}

}  // namespace flotilla::config
