// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>

#include "src/config/key_table.hpp"
#include "src/config/rules.hpp"

namespace flotilla::config {
namespace {

constexpr std::size_t max_weighted_classes = 100000;

Condition schedule_is(std::vector<std::string> kinds) {
  return {"schedule.kind", std::move(kinds)};
}

class TrainRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  void batch_size() {
    if (!usable({"train.batch_size", "train.global_batch_size"})) return;
    const TrainConfig& train = config.train;
    if (train.batch_size == 0 && train.global_batch_size == 0) {
      mistakes.add({}, "train.batch_size or train.global_batch_size must be given");
    } else if (train.batch_size > 0 && train.global_batch_size > 0) {
      reject({"train.global_batch_size"},
             "train.global_batch_size and train.batch_size exclude each other; give one of them");
    }
    if (usable({"train.accumulate_steps"}) && train.global_batch_size % train.accumulate_steps != 0) {
      reject({"train.accumulate_steps", "train.global_batch_size"},
             "train.global_batch_size must be a multiple of train.accumulate_steps, got ",
             train.global_batch_size, " and ", train.accumulate_steps);
    }
  }

  void end_of_training() {
    if (!usable({"train.epochs", "train.steps", "train.seconds", "schedule.kind"})) return;
    if (config.train.epochs > 0 || config.train.steps > 0) return;
    const ScheduleKind kind = config.schedule.kind;
    if (config.train.seconds <= 0.0) {
      reject(
          {"train.epochs", "train.steps"},
          "train.epochs, train.steps or train.seconds must be given and positive: else training has no end");
    } else if (kind == ScheduleKind::cosine || kind == ScheduleKind::linear ||
               kind == ScheduleKind::one_cycle) {
      reject({"schedule.kind"},
             "schedule.kind decays to an end that train.seconds alone does not tell: give train.epochs or "
             "train.steps as well, or schedule.kind = \"constant\"");
    }
  }

  void weight_average() {
    if (!usable({"train.average_decay", "strategy.kind"})) return;
    if (config.train.average_decay > 0.0 && config.all_reduce() == nullptr)
      reject({"train.average_decay", "strategy.kind"},
             "train.average_decay needs strategy.kind = \"all-reduce\", whose workers hold one model after "
             "each step: leave it out, or use checkpoint.best");
  }

  void class_weights() {
    const auto count = static_cast<std::int64_t>(config.train.class_weights.size());
    if (!usable({"train.class_weights"}) || count == 0) return;
    constexpr std::string_view key = "train.class_weights";
    if (usable({"model.classes"}) && config.model.has_classes() && config.model.classes > 0 &&
        count != config.model.classes)
      reject({key}, key, " holds a weight for each of the ", config.model.classes,
             " classes (model.classes), got ", count);
    const auto refuse = [&](std::string_view path, bool has, std::string_view why) {
      if (has && usable({path})) reject({key, path}, key, " and ", path, " exclude each other: ", why);
    };
    refuse("train.label_smoothing", config.train.label_smoothing > 0.0, "leave one of them out");
    refuse("train.mixup", config.train.mixup > 0.0, "a mixed sample has two classes; leave one of them out");
    refuse("train.cutmix", config.train.cutmix > 0.0,
           "a mixed sample has two classes; leave one of them out");
    if (usable({"model.kind"}) && config.model.has_embeddings())
      reject({key, "model.kind"}, key,
             " is not done with model.kind = \"ctr-dnn\": leave it out, and give the clicks more samples");
    else if (usable({"strategy.kind"}) && config.server() != nullptr)
      reject({key, "strategy.kind"}, key,
             " is not done by parameter servers, which do not know the weights of a step's samples: use "
             "strategy.kind = \"all-reduce\" or \"local-sgd\"");
  }

  void plateau() {
    const ScheduleConfig& schedule = config.schedule;
    if (!usable({"schedule.kind"}) || schedule.kind != ScheduleKind::plateau) return;
    if (!config.data.has_validation())
      reject({"schedule.kind"},
             "schedule.kind = \"plateau\" follows the results of validations: set data.validation.share or "
             "data.validation.path");
    if (usable({"validation.every"}) && config.validation.every == 0)
      reject({"validation.every", "schedule.kind"},
             "schedule.kind = \"plateau\" follows the results of validations, and validation.every = 0 asks "
             "for none before the end");
    if (usable({"schedule.factor"}) && schedule.factor >= 1.0)
      reject({"schedule.factor"},
             "schedule.factor must be less than 1 with schedule.kind = \"plateau\", got ", schedule.factor);
    if (!usable({"train.patience", "schedule.patience"}) || config.train.patience == 0) return;
    if (config.train.patience <= schedule.plateau.patience + 1)
      reject({"train.patience", "schedule.patience"},
             "train.patience ends training before schedule.patience lowers the learning rate: it must be at "
             "least ",
             schedule.plateau.patience + 2, " (schedule.patience + 2), got ", config.train.patience);
  }

  void one_cycle() {
    if (!usable({"schedule.kind", "schedule.warmup_epochs"})) return;
    if (config.schedule.kind == ScheduleKind::one_cycle && config.schedule.warmup_epochs > 0.0)
      reject({"schedule.warmup_epochs"},
             "schedule.kind = \"one-cycle\" begins with a rise of its own: leave schedule.warmup_epochs out, "
             "and set schedule.rise");
  }

  void warm_up() {
    if (!usable({"train.epochs", "schedule.warmup_epochs"}) || config.train.epochs == 0) return;
    if (config.schedule.warmup_epochs < static_cast<double>(config.train.epochs)) return;
    reject({"schedule.warmup_epochs", "train.epochs"},
           "schedule.warmup_epochs must be less than train.epochs, got ", config.schedule.warmup_epochs,
           " and ", config.train.epochs);
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
    reject({"schedule.final_learning_rate"},
           "schedule.final_learning_rate must be at most schedule.learning_rate (",
           config.schedule.learning_rate, "), got ", config.schedule.final_learning_rate);
  }

  void rates() {
    for (const std::string& entry : config.optimizer.rates)
      if (!rate_factor(entry))
        reject({"optimizer.rates"},
               "optimizer.rates holds patterns of names with a positive factor, as \"fc.* 10\", got ",
               quoted(entry));
  }

  void no_decay() {
    if (!usable({"optimizer.no_decay"})) return;
    std::vector<NoDecay> kinds = config.optimizer.no_decay;
    std::sort(kinds.begin(), kinds.end());
    const auto twice = std::adjacent_find(kinds.begin(), kinds.end());
    if (twice == kinds.end()) return;
    reject({"optimizer.no_decay"}, "optimizer.no_decay names " + quoted(word(*twice)) + " twice");
  }
};

}  // namespace

std::vector<Key> train_keys() {
  return {
      key<&TrainConfig::epochs>("train.epochs", at_least(0, max_steps), may_change,
                                "Passes over the training data; 0: no limit. Whichever of epochs, steps and "
                                "seconds ends first holds"),
      key<&TrainConfig::steps>("train.steps", at_least(0, max_steps), may_change,
                               "Updates of the model; 0: no limit"),
      key<&TrainConfig::seconds>("train.seconds", at_least(0, max_seconds), may_change,
                                 "Seconds that the steps of worker 0 may take, all resumes together, without "
                                 "validations and checkpoints; schedules do not know of it; 0: no limit"),
      key<&TrainConfig::batch_size>("train.batch_size", positive(max_count), may_change,
                                    "Samples per worker and micro-step. Either this or global_batch_size")
          .may_be_left_out(),
      key<&TrainConfig::global_batch_size>("train.global_batch_size", positive(max_count), may_change,
                                           "Samples per step over all workers and micro-steps")
          .may_be_left_out(),
      key<&TrainConfig::accumulate_steps>("train.accumulate_steps", at_least(1, 1048576), may_change,
                                          "Micro-steps whose gradients make one step"),
      key<&TrainConfig::accumulate>("train.accumulate", any_value(), on_request,
                                    "What the micro-steps' gradients are combined to"),
      key<&TrainConfig::label_smoothing>("train.label_smoothing", fraction(), on_request,
                                         "Share of a label's weight that is spread over all classes"),
      key<&TrainConfig::class_weights>(
          "train.class_weights", array_of(0, max_weighted_classes, positive()), on_request,
          "Weights of the losses, one for each class: the loss of a step and of a validation is Σ wᵢ lᵢ / Σ "
          "wᵢ "
          "over all workers' samples, where wᵢ is the weight of a sample's label; with local SGD a worker's "
          "step divides by the weights of its own samples. Empty: all are 1"),
      key<&TrainConfig::mixup>(
          "train.mixup", at_least(0), on_request,
          "Mixes pairs of samples and their labels, λ : 1 − λ, where λ ~ Beta(mixup, mixup) is one for a "
          "step; the batch must be even. The original's value is 0.2; 0: off"),
      key<&TrainConfig::cutmix>(
          "train.cutmix", at_least(0), on_request,
          "Images of pairs exchange a rectangle, whose share of the area is 1 − λ where it lies inside, and "
          "their labels that share, where λ ~ Beta(cutmix, cutmix); one rectangle for a step; 1 is usual; 0: "
          "off. With mixup as well each step takes one of the two, at random"),
      key<&TrainConfig::gradient_clip_norm>(
          "train.gradient_clip_norm", at_least(0), on_request,
          "Largest norm of the whole gradient, longer ones are scaled down; 0: no clipping"),
      key<&TrainConfig::average_decay>(
          "train.average_decay", fraction(), on_request,
          "Decay in a step of an exponential moving average of the weights, which is kept, validated and "
          "saved beside them and does not change training; checkpoint.best and train.patience then compare "
          "its figures. 0.999 averages over about 1,000 steps; 0: none. Needs strategy.kind = "
          "\"all-reduce\""),
      key<&TrainConfig::patience>("train.patience", at_least(0, max_steps), may_change,
                                  "Validations in a row without improvement of checkpoint.best after which "
                                  "training ends; 0: it does not"),
      key<&TrainConfig::target>("train.target", at_least(0), may_change,
                                "Training ends after a validation whose figure checkpoint.best is at least "
                                "this (a loss and rmse: at most); 0: none"),
  };
}

std::vector<Key> optimizer_keys() {
  return {
      key<&OptimizerConfig::kind>("optimizer.kind", any_value(), must_match, "The update rule"),
      key<&OptimizerConfig::momentum>("optimizer.momentum", fraction(), on_request, "v ← momentum · v + g")
          .only_for({"optimizer.kind", optimizers_with("momentum")}),
      key<&OptimizerConfig::beta1>("optimizer.beta1", fraction(), on_request,
                                   "Decay of the gradient's running mean")
          .only_for({"optimizer.kind", optimizers_with("beta1")}),
      key<&OptimizerConfig::beta2>("optimizer.beta2", fraction(), on_request,
                                   "Decay of the squared gradient's running mean")
          .only_for({"optimizer.kind", optimizers_with("beta2")}),
      key<&OptimizerConfig::epsilon>("optimizer.epsilon", positive(), on_request,
                                     "Added to the root of the squares")
          .only_for({"optimizer.kind", optimizers_with("epsilon")}),
      key<&OptimizerConfig::weight_decay>("optimizer.weight_decay", at_least(0), on_request,
                                          "λ, the pull of weights towards 0"),
      key<&OptimizerConfig::decay>("optimizer.decay", any_value(), on_request,
                                   "\"coupled\" adds λ p to the gradient, \"decoupled\" takes lr λ p off the "
                                   "weight. Of lars, lamb and adamw the rule itself says which")
          .only_for({"optimizer.kind", optimizers_with("decay")}),
      key<&OptimizerConfig::no_decay>("optimizer.no_decay", any_value(), on_request,
                                      "Parameters without weight decay"),
      key<&OptimizerConfig::frozen>(
          "optimizer.frozen", any_value(), must_match,
          "Parameters that are not trained, by names or patterns: [\"conv1.*\", \"bn1.*\", \"layer1.*\"]; "
          "\"*\" stands for any letters, dots too (`flotilla inspect` lists the names)"),
      key<&OptimizerConfig::rates>("optimizer.rates", any_value(), on_request,
                                   "Factors of the learning rate, each a pattern of names and a number: "
                                   "[\"fc.* 10\"]; of several that match a parameter the last one holds"),
      key<&OptimizerConfig::lars_coefficient>("optimizer.lars_coefficient", positive(), on_request,
                                              "A layer's rate is lr · coefficient · ‖p‖ / (‖g‖ + λ ‖p‖)")
          .only_for({"optimizer.kind", optimizers_with("lars_coefficient")}),
  };
}

std::vector<Key> schedule_keys() {
  return {
      key<&ScheduleConfig::kind>("schedule.kind", any_value(), on_request,
                                 "The learning rate after the warm-up"),
      key<&ScheduleConfig::learning_rate>(
          "schedule.learning_rate", positive(), on_request,
          "Learning rate at the end of the warm-up; of \"one-cycle\" the highest")
          .must_be_given(),
      key<&ScheduleConfig::warmup_epochs>(
          "schedule.warmup_epochs", at_least(0), on_request,
          "Length of the linear warm-up, may be a fraction; less than train.epochs"),
      key<&ScheduleConfig::warmup_from>("schedule.warmup_from", at_least(0), on_request,
                                        "Learning rate at the first step of the warm-up"),
      key<&ScheduleConfig::milestones>(
          "schedule.milestones", array_of(1, 1024, positive()), on_request,
          "Epochs, increasing, at each of which the learning rate is multiplied by factor")
          .only_for(schedule_is({"piecewise"}))
          .must_be_given(),
      key<&ScheduleConfig::factor>(
          "schedule.factor", positive(), on_request,
          "See schedule.milestones; of \"plateau\" less than 1, see schedule.patience")
          .only_for(schedule_is({"piecewise", "plateau"})),
      key<&ScheduleConfig::final_learning_rate>(
          "schedule.final_learning_rate", at_least(0), on_request,
          "Learning rate at the end of the training; of \"plateau\" the lowest")
          .only_for(schedule_is({"cosine", "linear", "plateau"})),
      key<&ScheduleConfig::plateau, &PlateauConfig::patience>(
          "schedule.patience", at_least(0, max_steps), on_request,
          "Validations in a row that may pass without an improvement; one more multiplies the learning rate "
          "by "
          "factor. They are compared by checkpoint.best, or where that is \"none\" by accuracy_top1, auc, r2 "
          "or "
          "accuracy")
          .only_for(schedule_is({"plateau"})),
      key<&ScheduleConfig::plateau, &PlateauConfig::threshold>("schedule.threshold", at_least(0), on_request,
                                                               "Least improvement on the best validation")
          .only_for(schedule_is({"plateau"})),
      key<&ScheduleConfig::plateau, &PlateauConfig::threshold_kind>(
          "schedule.threshold_kind", any_value(), on_request,
          "Whether the threshold is a share of the best figure")
          .only_for(schedule_is({"plateau"})),
      key<&ScheduleConfig::plateau, &PlateauConfig::cooldown>(
          "schedule.cooldown", at_least(0, max_steps), on_request,
          "Validations after a reduction in which schedule.patience does not count")
          .only_for(schedule_is({"plateau"})),
      key<&ScheduleConfig::rise>("schedule.rise",
                                 {.low = 0, .high = 1, .low_itself = false, .high_itself = false}, on_request,
                                 "Share of the training's steps in which the learning rate rises to "
                                 "learning_rate; it falls in the others")
          .only_for(schedule_is({"one-cycle"})),
      key<&ScheduleConfig::initial_divisor>("schedule.initial_divisor", at_least(1), on_request,
                                            "The first learning rate is learning_rate divided by this")
          .only_for(schedule_is({"one-cycle"})),
      key<&ScheduleConfig::final_divisor>("schedule.final_divisor", at_least(1), on_request,
                                          "The last learning rate is the first one divided by this")
          .only_for(schedule_is({"one-cycle"})),
      key<&ScheduleConfig::scale_with_batch>("schedule.scale_with_batch", any_value(), on_request,
                                             "Multiply the learning rate by global batch ÷ base_batch"),
      key<&ScheduleConfig::base_batch>("schedule.base_batch", positive(max_count), on_request,
                                       "See schedule.scale_with_batch")
          .only_for({"schedule.scale_with_batch", {"true"}}),
  };
}

void check_train_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  TrainRules rules(config, given, mistakes);
  rules.batch_size();
  rules.end_of_training();
  rules.weight_average();
  rules.class_weights();
  rules.plateau();
  rules.one_cycle();
  rules.warm_up();
  rules.milestones();
  rules.final_learning_rate();
  rules.rates();
  rules.no_decay();
}

}  // namespace flotilla::config
