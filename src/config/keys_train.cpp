// SPDX-License-Identifier: Apache-2.0
#include "src/config/key_table.hpp"

namespace flotilla::config {
namespace {

Condition optimizer_is(std::vector<std::string> kinds) {
  return {"optimizer.kind", std::move(kinds)};
}
Condition schedule_is(std::vector<std::string> kinds) {
  return {"schedule.kind", std::move(kinds)};
}

}  // namespace

std::vector<Key> training_keys() {
  return {
      {.path = "train.epochs",
       .field = field<&Config::train, &TrainConfig::epochs>(),
       .rule = at_least(0, most_steps),
       .help =
           "Passes over the training data; 0: no limit. Whichever of epochs, steps and seconds ends first "
           "holds"},
      {.path = "train.steps",
       .field = field<&Config::train, &TrainConfig::steps>(),
       .rule = at_least(0, most_steps),
       .help = "Updates of the model; 0: no limit"},
      {.path = "train.seconds",
       .field = field<&Config::train, &TrainConfig::seconds>(),
       .rule = at_least(0, most_seconds),
       .help = "Seconds that the steps of worker 0 may take, all resumes together, without validations and "
               "checkpoints; schedules do not know of it; 0: no limit"},
      {.path = "train.batch_size",
       .field = field<&Config::train, &TrainConfig::batch_size>(),
       .rule = positive(most_count),
       .help = "Samples per worker and micro-step. Either this or global_batch_size",
       .presence = Necessity::optional},
      {.path = "train.global_batch_size",
       .field = field<&Config::train, &TrainConfig::global_batch_size>(),
       .rule = positive(most_count),
       .help = "Samples per step over all workers and micro-steps",
       .presence = Necessity::optional},
      {.path = "train.accumulate_steps",
       .field = field<&Config::train, &TrainConfig::accumulate_steps>(),
       .rule = at_least(1, 1048576),
       .help = "Micro-steps whose gradients make one step"},
      {.path = "train.accumulate",
       .field = field<&Config::train, &TrainConfig::accumulate>(),
       .help = "What the micro-steps' gradients are combined to",
       .on_resume = on_request},
      {.path = "train.label_smoothing",
       .field = field<&Config::train, &TrainConfig::label_smoothing>(),
       .rule = fraction(),
       .help = "Share of a label's weight that is spread over all classes",
       .on_resume = on_request},
      {.path = "train.mixup",
       .field = field<&Config::train, &TrainConfig::mixup>(),
       .rule = at_least(0),
       .help =
           "Mixes pairs of samples and their labels, λ : 1 − λ, where λ ~ Beta(mixup, mixup) is one for a "
           "step; the batch must be even. The original's value is 0.2; 0: off",
       .on_resume = on_request},
      {.path = "train.cutmix",
       .field = field<&Config::train, &TrainConfig::cutmix>(),
       .rule = at_least(0),
       .help =
           "Images of pairs exchange a rectangle, whose share of the area is 1 − λ where it lies inside, and "
           "their labels that share, where λ ~ Beta(cutmix, cutmix); one rectangle for a step; 1 is usual; "
           "0: "
           "off. With mixup as well each step takes one of the two, at random",
       .on_resume = on_request},
      {.path = "train.gradient_clip_norm",
       .field = field<&Config::train, &TrainConfig::gradient_clip_norm>(),
       .rule = at_least(0),
       .help = "Largest norm of the whole gradient, longer ones are scaled down; 0: no clipping",
       .on_resume = on_request},
      {.path = "train.average_decay",
       .field = field<&Config::train, &TrainConfig::average_decay>(),
       .rule = fraction(),
       .help =
           "Decay in a step of an exponential moving average of the weights, which is kept, validated and "
           "saved "
           "beside them and does not change training; checkpoint.best and train.patience then compare its "
           "figures. 0.999 averages over about 1,000 steps; 0: none. Needs strategy.kind = \"all-reduce\"",
       .on_resume = on_request},
      {.path = "train.patience",
       .field = field<&Config::train, &TrainConfig::patience>(),
       .rule = at_least(0, most_steps),
       .help = "Validations in a row without improvement of checkpoint.best after which training ends; 0: it "
               "does not"},
      {.path = "train.target",
       .field = field<&Config::train, &TrainConfig::target>(),
       .rule = at_least(0),
       .help = "Training ends after a validation whose figure checkpoint.best is at least this (a loss and "
               "rmse: at "
               "most); 0: none"},
      {.path = "optimizer.kind",
       .field = field<&Config::optimizer, &OptimizerConfig::kind>(),
       .help = "The update rule",
       .on_resume = must_match},
      {.path = "optimizer.momentum",
       .field = field<&Config::optimizer, &OptimizerConfig::momentum>(),
       .rule = fraction(),
       .help = "v ← momentum · v + g",
       .on_resume = on_request,
       .condition = optimizer_is({"momentum", "nesterov", "lars"})},
      {.path = "optimizer.beta1",
       .field = field<&Config::optimizer, &OptimizerConfig::beta1>(),
       .rule = fraction(),
       .help = "Decay of the gradient's running mean",
       .on_resume = on_request,
       .condition = optimizer_is({"lamb", "adam", "adamw"})},
      {.path = "optimizer.beta2",
       .field = field<&Config::optimizer, &OptimizerConfig::beta2>(),
       .rule = fraction(),
       .help = "Decay of the squared gradient's running mean",
       .on_resume = on_request,
       .condition = optimizer_is({"lamb", "adam", "adamw"})},
      {.path = "optimizer.epsilon",
       .field = field<&Config::optimizer, &OptimizerConfig::epsilon>(),
       .rule = positive(),
       .help = "Added to the root of the squares",
       .on_resume = on_request,
       .condition = optimizer_is({"lamb", "adam", "adamw", "adagrad"})},
      {.path = "optimizer.weight_decay",
       .field = field<&Config::optimizer, &OptimizerConfig::weight_decay>(),
       .rule = at_least(0),
       .help = "λ, the pull of weights towards 0",
       .on_resume = on_request},
      {.path = "optimizer.decay",
       .field = field<&Config::optimizer, &OptimizerConfig::decay>(),
       .help = "\"coupled\" adds λ p to the gradient, \"decoupled\" takes lr λ p off the weight. Of lars, "
               "lamb and "
               "adamw the rule itself says which",
       .on_resume = on_request,
       .condition = optimizer_is({"sgd", "momentum", "nesterov", "adam", "adagrad"})},
      {.path = "optimizer.no_decay",
       .field = field<&Config::optimizer, &OptimizerConfig::no_decay>(),
       .help = "Parameters without weight decay",
       .on_resume = on_request},
      {.path = "optimizer.frozen",
       .field = field<&Config::optimizer, &OptimizerConfig::frozen>(),
       .help =
           "Parameters that are not trained, by names or patterns: [\"conv1.*\", \"bn1.*\", \"layer1.*\"]; "
           "\"*\" stands for any letters, dots too (`flotilla inspect` lists the names)",
       .on_resume = must_match},
      {.path = "optimizer.rates",
       .field = field<&Config::optimizer, &OptimizerConfig::rates>(),
       .help =
           "Factors of the learning rate, each a pattern of names and a number: [\"fc.* 10\"]; of several "
           "that match a parameter the last one holds",
       .on_resume = on_request},
      {.path = "optimizer.lars_coefficient",
       .field = field<&Config::optimizer, &OptimizerConfig::lars_coefficient>(),
       .rule = positive(),
       .help = "A layer's rate is lr · coefficient · ‖p‖ / (‖g‖ + λ ‖p‖)",
       .on_resume = on_request,
       .condition = optimizer_is({"lars"})},
      {.path = "schedule.kind",
       .field = field<&Config::schedule, &ScheduleConfig::kind>(),
       .help = "The learning rate after the warm-up",
       .on_resume = on_request},
      {.path = "schedule.learning_rate",
       .field = field<&Config::schedule, &ScheduleConfig::learning_rate>(),
       .rule = positive(),
       .help = "Learning rate at the end of the warm-up",
       .on_resume = on_request,
       .presence = Necessity::required},
      {.path = "schedule.warmup_epochs",
       .field = field<&Config::schedule, &ScheduleConfig::warmup_epochs>(),
       .rule = at_least(0),
       .help = "Length of the linear warm-up, may be a fraction; less than train.epochs",
       .on_resume = on_request},
      {.path = "schedule.warmup_from",
       .field = field<&Config::schedule, &ScheduleConfig::warmup_from>(),
       .rule = at_least(0),
       .help = "Learning rate at the first step of the warm-up",
       .on_resume = on_request},
      {.path = "schedule.milestones",
       .field = field<&Config::schedule, &ScheduleConfig::milestones>(),
       .rule = array_of(1, 1024, positive()),
       .help = "Epochs, increasing, at each of which the learning rate is multiplied by factor",
       .on_resume = on_request,
       .condition = schedule_is({"piecewise"}),
       .presence = Necessity::required},
      {.path = "schedule.factor",
       .field = field<&Config::schedule, &ScheduleConfig::factor>(),
       .rule = positive(),
       .help = "See schedule.milestones",
       .on_resume = on_request,
       .condition = schedule_is({"piecewise"})},
      {.path = "schedule.final_learning_rate",
       .field = field<&Config::schedule, &ScheduleConfig::final_learning_rate>(),
       .rule = at_least(0),
       .help = "Learning rate at the end of the training",
       .on_resume = on_request,
       .condition = schedule_is({"cosine", "linear"})},
      {.path = "schedule.scale_with_batch",
       .field = field<&Config::schedule, &ScheduleConfig::scale_with_batch>(),
       .help = "Multiply the learning rate by global batch ÷ base_batch",
       .on_resume = on_request},
      {.path = "schedule.base_batch",
       .field = field<&Config::schedule, &ScheduleConfig::base_batch>(),
       .rule = positive(most_count),
       .help = "See schedule.scale_with_batch",
       .on_resume = on_request,
       .condition = {"schedule.scale_with_batch", {"true"}}},
  };
}

}  // namespace flotilla::config
