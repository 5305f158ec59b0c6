// SPDX-License-Identifier: Apache-2.0
#include "src/config/keys.hpp"

namespace flotilla::config {
namespace {

constexpr double most_samples = 1e12;
constexpr double most_count = 2147483647;  // What the message counts of MPI and the sizes of oneDNN hold

Rule any() {
  return {};
}
Rule at_least(double low, double high = std::numeric_limits<double>::infinity()) {
  return {.low = low, .high = high};
}
Rule positive(double high = std::numeric_limits<double>::infinity()) {
  return {.low = 0, .high = high, .low_itself = false};
}
Rule fraction() {
  return {.low = 0, .high = 1, .high_itself = false};
}
Rule one_of(std::vector<std::string> choices, std::string advice = "") {
  return {.choices = std::move(choices), .advice = std::move(advice)};
}
Rule array_of(std::size_t least, std::size_t most, Rule rule) {
  rule.least_elements = least;
  rule.most_elements = most;
  return rule;
}

Condition optimizer_is(std::vector<std::string> kinds) {
  return {"optimizer.kind", std::move(kinds)};
}
Condition schedule_is(std::vector<std::string> kinds) {
  return {"schedule.kind", std::move(kinds)};
}
Condition data_is(std::string kind) {
  return {"data.kind", {std::move(kind)}};
}

constexpr auto must_match = OnResume::must_match;

std::vector<Key> run_and_device_keys() {
  return {{.path = "run.seed", .field = [](Config & c) -> auto& {return c.run.seed;
}
, .rule = at_least(0), .help = "Seed of initial weights, order of samples and random data",
  .on_resume = must_match
}  // namespace
, {.path = "run.output", .field = [](Config & c) -> auto& {return c.run.output;
}  // namespace flotilla::config
, .rule = any(), .help = "Folder of the run, relative to the current folder", .path_role = PathRole::output,
  .default_text = "runs/<name of the deck>"
}
, {.path = "run.resume", .field = [](Config & c) -> auto& {return c.run.resume;
}
, .rule = any(),
  .help =
      "\"auto\": from the newest good checkpoint in run.output; \"never\": refuse if there is one; or a "
      "checkpoint",
  .path_role = PathRole::input
}
, {.path = "run.log_every", .field = [](Config & c) -> auto& {return c.run.log_every;
}
, .rule = positive(most_samples), .help = "Steps between reports"
}
, {.path = "run.trace", .field = [](Config & c) -> auto& {return c.run.trace;
}
, .rule = any(), .help = "Write a Chrome trace per rank into run.output/trace"
}
, {.path = "run.watchdog_s", .field = [](Config & c) -> auto& {return c.run.watchdog_s;
}
, .rule = at_least(0), .help = "Seconds without progress after which the job is ended with a report; 0: never"
}
, {.path = "run.time_limit_s", .field = [](Config & c) -> auto& {return c.run.time_limit_s;
}
, .rule = at_least(0), .help = "Seconds after which the run saves a checkpoint and stops; 0: none"
}
,

    {.path = "device.kind", .field = [](Config & c) -> auto& {return c.device.kind;
}
, .rule = one_of({"cpu", "cuda", "reference"}),
  .help = "\"reference\" has the plainest loops, to compare the others with"
}
, {.path = "device.precision", .field = [](Config & c) -> auto& {return c.device.precision;
}
, .rule = one_of({"float32"}, "the devices \"cpu\" and \"reference\" compute in float32 only"),
  .help = "Precision of activations and gradients"
}
, {.path = "device.threads", .field = [](Config & c) -> auto& {return c.device.threads;
}
, .rule = at_least(0, 4096),
  .help = "Threads of a rank; 0: the cores that it is bound to, shared fairly with other ranks on them"
}
,
}
;
}

std::vector<Key> model_and_data_keys() {
  const Condition mlp = {"model.kind", {"mlp"}};
  return {{.path = "model.kind", .field = [](Config & c) -> auto& {return c.model.kind;
}
, .rule = one_of({"mlp"}), .help = "\"mlp\": fully connected layers; the inputs' size comes from the data",
  .on_resume = must_match
}
, {.path = "model.widths", .field = [](Config & c) -> auto& {return c.model.widths;
}
, .rule = array_of(0, 1024, positive(16777216)), .help = "Sizes of the hidden layers; []: none",
  .on_resume = must_match, .condition = mlp, .presence = Presence::required
}
, {.path = "model.activation", .field = [](Config & c) -> auto& {return c.model.activation;
}
, .rule = one_of({"tanh", "relu", "sigmoid"}), .help = "After each hidden layer", .on_resume = must_match,
  .condition = mlp
}
, {.path = "model.classes", .field = [](Config & c) -> auto& {return c.model.classes;
}
, .rule = at_least(2, 16777216), .help = "Outputs; labels are 0 … classes − 1", .on_resume = must_match,
  .presence = Presence::required
}
, {.path = "model.initializer", .field = [](Config & c) -> auto& {return c.model.initializer;
}
, .rule = one_of({"xavier-uniform", "xavier-normal", "he-uniform", "he-normal", "uniform", "normal"}),
  .help = "Distribution of the initial weights; biases start at 0", .on_resume = must_match
}
, {.path = "model.initializer_scale", .field = [](Config & c) -> auto& {return c.model.initializer_scale;
}
, .rule = positive(), .help = "Bound of \"uniform\", standard deviation of \"normal\"",
  .on_resume = must_match, .condition = {"model.initializer", {"uniform", "normal"}},
  .presence = Presence::required
}
, {.path = "model.initial_weights", .field = [](Config & c) -> auto& {return c.model.initial_weights;
}
, .rule = any(), .help = "Checkpoint or exported model to start from; empty: none", .on_resume = must_match,
  .path_role = PathRole::input
}
,

    {.path = "data.kind", .field = [](Config & c) -> auto& {return c.data.kind;
}
, .rule = one_of({"idx", "random"}),
  .help = "\"idx\": files of images and labels as MNIST has them, plain or .gz; \"random\": made up",
  .on_resume = must_match
}
, {.path = "data.shape", .field = [](Config & c) -> auto& {return c.data.shape;
}
, .rule = array_of(1, 3, positive(16777216)), .help = "Shape of a sample, one to three sizes",
  .on_resume = must_match, .condition = data_is("random"), .presence = Presence::required
}
, {.path = "data.mean", .field = [](Config & c) -> auto& {return c.data.mean;
}
, .rule = any(), .help = "The network sees (pixel / 255 − mean) / std", .on_resume = must_match,
  .condition = data_is("idx")
}
, {.path = "data.std", .field = [](Config & c) -> auto& {return c.data.std;
}
, .rule = positive(), .help = "See data.mean", .on_resume = must_match, .condition = data_is("idx")
}
, {.path = "data.threads", .field = [](Config & c) -> auto& {return c.data.threads;
}
, .rule = at_least(1, 1024), .help = "Threads of a rank that read ahead"
}
, {.path = "data.prefetch", .field = [](Config & c) -> auto& {return c.data.prefetch;
}
, .rule = at_least(1, 65536), .help = "Batches read ahead"
}
, {.path = "data.last_batch", .field = [](Config & c) -> auto& {return c.data.last_batch;
}
, .rule = one_of({"wrap", "drop"}),
  .help =
      "A last batch that is not full: \"wrap\" fills it from the start of the epoch's order, \"drop\" "
      "leaves it out",
  .on_resume = must_match
}
,

    {.path = "data.train.images", .field = [](Config & c) -> auto& {return c.data.train.images;
}
, .rule = any(), .help = "IDX file of training images, relative to the deck", .on_resume = must_match,
  .condition = data_is("idx"), .presence = Presence::required, .path_role = PathRole::input
}
, {.path = "data.train.labels", .field = [](Config & c) -> auto& {return c.data.train.labels;
}
, .rule = any(), .help = "IDX file of their labels", .on_resume = must_match, .condition = data_is("idx"),
  .presence = Presence::required, .path_role = PathRole::input
}
, {.path = "data.train.samples", .field = [](Config & c) -> auto& {return c.data.train.samples;
}
, .rule = positive(most_samples), .help = "Number of random training samples", .on_resume = must_match,
  .condition = data_is("random"), .presence = Presence::required
}
,

    {.path = "data.validation.images", .field = [](Config & c) -> auto& {return c.data.validation.images;
}
, .rule = any(),
  .help = "IDX file of validation images; left out or empty, as the labels then must be: no validation",
  .on_resume = must_match, .condition = data_is("idx"), .presence = Presence::optional,
  .path_role = PathRole::input
}
, {.path = "data.validation.labels", .field = [](Config & c) -> auto& {return c.data.validation.labels;
}
, .rule = any(), .help = "IDX file of their labels", .on_resume = must_match, .condition = data_is("idx"),
  .presence = Presence::optional, .path_role = PathRole::input
}
, {.path = "data.validation.samples", .field = [](Config & c) -> auto& {return c.data.validation.samples;
}
, .rule = at_least(0, most_samples),
  .help = "Number of random validation samples; left out or 0: no validation", .on_resume = must_match,
  .condition = data_is("random"), .presence = Presence::optional
}
,
}
;
}

std::vector<Key> training_keys() {
  return {{.path = "train.epochs", .field = [](Config & c) -> auto& {return c.train.epochs;
}
, .rule = at_least(0, most_samples),
  .help = "Passes over the training data; 0: no limit. Whichever of epochs and steps ends first holds"
}
, {.path = "train.steps", .field = [](Config & c) -> auto& {return c.train.steps;
}
, .rule = at_least(0, most_samples), .help = "Updates of the model; 0: no limit"
}
, {.path = "train.batch_size", .field = [](Config & c) -> auto& {return c.train.batch_size;
}
, .rule = positive(most_count), .help = "Samples per worker and micro-step. Either this or global_batch_size",
  .presence = Presence::optional
}
, {.path = "train.global_batch_size", .field = [](Config & c) -> auto& {return c.train.global_batch_size;
}
, .rule = positive(most_count), .help = "Samples per step over all workers and micro-steps",
  .presence = Presence::optional
}
, {.path = "train.accumulate_steps", .field = [](Config & c) -> auto& {return c.train.accumulate_steps;
}
, .rule = at_least(1, 1048576), .help = "Micro-steps whose gradients are averaged into one step"
}
, {.path = "train.label_smoothing", .field = [](Config & c) -> auto& {return c.train.label_smoothing;
}
, .rule = fraction(), .help = "Share of a label's weight that is spread over all classes",
  .on_resume = must_match
}
, {.path = "train.gradient_clip_norm", .field = [](Config & c) -> auto& {return c.train.gradient_clip_norm;
}
, .rule = at_least(0),
  .help = "Largest norm of the whole gradient, longer ones are scaled down; 0: no clipping",
  .on_resume = must_match
}
,

    {.path = "optimizer.kind", .field = [](Config & c) -> auto& {return c.optimizer.kind;
}
, .rule = one_of({"sgd", "momentum", "nesterov", "lars", "lamb", "adam", "adamw", "adagrad"}),
  .help = "The update rule", .on_resume = must_match
}
, {.path = "optimizer.momentum", .field = [](Config & c) -> auto& {return c.optimizer.momentum;
}
, .rule = fraction(), .help = "v ← momentum · v + g", .on_resume = must_match,
  .condition = optimizer_is({"momentum", "nesterov", "lars"})
}
, {.path = "optimizer.beta1", .field = [](Config & c) -> auto& {return c.optimizer.beta1;
}
, .rule = fraction(), .help = "Decay of the gradient's running mean", .on_resume = must_match,
  .condition = optimizer_is({"lamb", "adam", "adamw"})
}
, {.path = "optimizer.beta2", .field = [](Config & c) -> auto& {return c.optimizer.beta2;
}
, .rule = fraction(), .help = "Decay of the squared gradient's running mean", .on_resume = must_match,
  .condition = optimizer_is({"lamb", "adam", "adamw"})
}
, {.path = "optimizer.epsilon", .field = [](Config & c) -> auto& {return c.optimizer.epsilon;
}
, .rule = positive(), .help = "Added to the root of the squares", .on_resume = must_match,
  .condition = optimizer_is({"lamb", "adam", "adamw", "adagrad"})
}
, {.path = "optimizer.weight_decay", .field = [](Config & c) -> auto& {return c.optimizer.weight_decay;
}
, .rule = at_least(0), .help = "λ, the pull of weights towards 0", .on_resume = must_match
}
, {.path = "optimizer.decay", .field = [](Config & c) -> auto& {return c.optimizer.decay;
}
, .rule = one_of({"coupled", "decoupled"}),
  .help =
      "\"coupled\" adds λ p to the gradient, \"decoupled\" takes lr λ p off the weight. Of lars, lamb and "
      "adamw the rule itself says which",
  .on_resume = must_match, .condition = optimizer_is({"sgd", "momentum", "nesterov", "adam", "adagrad"})
}
, {.path = "optimizer.no_decay", .field = [](Config & c) -> auto& {return c.optimizer.no_decay;
}
, .rule = one_of({"biases", "batch_norm"}), .help = "Parameters without weight decay", .on_resume = must_match
}
, {.path = "optimizer.lars_coefficient",
   .field = [](Config & c) -> auto& {return c.optimizer.lars_coefficient;
}
, .rule = positive(), .help = "A layer's rate is lr · coefficient · ‖p‖ / (‖g‖ + λ ‖p‖)",
  .on_resume = must_match, .condition = optimizer_is({"lars"})
}
,

    {.path = "schedule.kind", .field = [](Config & c) -> auto& {return c.schedule.kind;
}
, .rule = one_of({"constant", "piecewise", "cosine", "linear"}),
  .help = "The learning rate after the warm-up", .on_resume = must_match
}
, {.path = "schedule.learning_rate", .field = [](Config & c) -> auto& {return c.schedule.learning_rate;
}
, .rule = positive(), .help = "Learning rate at the end of the warm-up", .on_resume = must_match,
  .presence = Presence::required
}
, {.path = "schedule.warmup_epochs", .field = [](Config & c) -> auto& {return c.schedule.warmup_epochs;
}
, .rule = at_least(0), .help = "Length of the linear warm-up, may be a fraction; less than train.epochs",
  .on_resume = must_match
}
, {.path = "schedule.warmup_from", .field = [](Config & c) -> auto& {return c.schedule.warmup_from;
}
, .rule = at_least(0), .help = "Learning rate at the first step of the warm-up", .on_resume = must_match
}
, {.path = "schedule.milestones", .field = [](Config & c) -> auto& {return c.schedule.milestones;
}
, .rule = array_of(1, 1024, positive()),
  .help = "Epochs, increasing, at each of which the learning rate is multiplied by factor",
  .on_resume = must_match, .condition = schedule_is({"piecewise"}), .presence = Presence::required
}
, {.path = "schedule.factor", .field = [](Config & c) -> auto& {return c.schedule.factor;
}
, .rule = positive(), .help = "See schedule.milestones", .on_resume = must_match,
  .condition = schedule_is({"piecewise"})
}
, {.path = "schedule.final_learning_rate",
   .field = [](Config & c) -> auto& {return c.schedule.final_learning_rate;
}
, .rule = at_least(0), .help = "Learning rate at the end of the training", .on_resume = must_match,
  .condition = schedule_is({"cosine", "linear"})
}
, {.path = "schedule.scale_with_batch", .field = [](Config & c) -> auto& {return c.schedule.scale_with_batch;
}
, .rule = any(), .help = "Multiply the learning rate by global batch ÷ base_batch", .on_resume = must_match
}
, {.path = "schedule.base_batch", .field = [](Config & c) -> auto& {return c.schedule.base_batch;
}
, .rule = positive(most_count), .help = "See schedule.scale_with_batch", .on_resume = must_match,
  .condition = {
    "schedule.scale_with_batch",
    {"true"}
  }
}
,
}
;
}

std::vector<Key> strategy_and_checkpoint_keys() {
  const Condition all_reduce = {"strategy.kind", {"all-reduce"}};
  return {{.path = "strategy.kind", .field = [](Config & c) -> auto& {return c.strategy.kind;
}
, .rule = one_of({"all-reduce"}),
  .help = "How the workers agree on one model: \"all-reduce\" averages their gradients in every step"
}
, {.path = "strategy.all_reduce", .field = [](Config & c) -> auto& {return c.strategy.all_reduce;
}
, .rule = one_of({"auto", "mpi", "shared-memory"}),
  .help = "\"auto\": shared memory if all ranks are on one host, else MPI", .condition = all_reduce
}
, {.path = "strategy.bucket_mb", .field = [](Config & c) -> auto& {return c.strategy.bucket_mb;
}
, .rule = positive(1048576), .help = "MiB of gradients that are reduced together", .condition = all_reduce
}
, {.path = "strategy.last_bucket_mb", .field = [](Config & c) -> auto& {return c.strategy.last_bucket_mb;
}
, .rule = positive(1048576),
  .help = "MiB of the bucket reduced last, which no computation hides; at most bucket_mb",
  .condition = all_reduce
}
,

    {.path = "checkpoint.every", .field = [](Config & c) -> auto& {return c.checkpoint.every;
}
, .rule = at_least(0, most_samples), .help = "Steps between checkpoints; 0: at the end only"
}
, {.path = "checkpoint.keep", .field = [](Config & c) -> auto& {return c.checkpoint.keep;
}
, .rule = at_least(1, most_count), .help = "Newest checkpoints that are kept"
}
,

    {.path = "validation.every", .field = [](Config & c) -> auto& {return c.validation.every;
}
, .rule = at_least(0, most_samples), .help = "Epochs between validations; 0: after the last step only"
}
, {.path = "validation.batch_size", .field = [](Config & c) -> auto& {return c.validation.batch_size;
}
, .rule = at_least(0, most_count), .help = "Samples per worker; 0: as in training"
}
,
}
;
}

std::vector<Key> make_table() {
  std::vector<Key> table;
  for (auto* const keys :
       {&run_and_device_keys, &model_and_data_keys, &training_keys, &strategy_and_checkpoint_keys}) {
    for (Key& key : keys()) table.push_back(std::move(key));
  }
  return table;
}

}  // namespace

std::span<const Key> all_keys() {
  static const std::vector<Key> keys = make_table();
  return keys;
}

}  // namespace flotilla::config
