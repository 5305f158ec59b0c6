// SPDX-License-Identifier: Apache-2.0
#include <fmt/ranges.h>

#include "src/config/key_table.hpp"
#include "src/config/layer_texts.hpp"
#include "src/config/rules.hpp"

namespace flotilla::config {
namespace {

bool predicts_numbers(ModelLoss loss) {
  return loss == ModelLoss::mse || loss == ModelLoss::mae || loss == ModelLoss::huber;
}

/// The values of model.loss that a figure of validations needs; empty: any.
std::string_view losses_of(BestMetric best) {
  switch (best) {
    case BestMetric::accuracy_top1:
    case BestMetric::accuracy_top5:
    case BestMetric::macro_f1:
    case BestMetric::balanced_accuracy:
    case BestMetric::roc_auc: return "\"softmax\"";
    case BestMetric::rmse:
    case BestMetric::r2: return "\"mse\", \"mae\" or \"huber\"";
    case BestMetric::accuracy:
    case BestMetric::f1: return "\"binary\"";
    default: return "";
  }
}

bool has_figure(ModelLoss loss, BestMetric best) {
  if (best == BestMetric::rmse || best == BestMetric::r2) return predicts_numbers(loss);
  if (best == BestMetric::accuracy || best == BestMetric::f1) return loss == ModelLoss::binary;
  return losses_of(best).empty() || loss == ModelLoss::softmax;
}

class ModelRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

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

  void fixed_statistics() {
    if (config.model.fixed_statistics.empty() || config.server() == nullptr) return;
    reject({"model.fixed_statistics", "strategy.kind"},
           "model.fixed_statistics is not done with parameter servers, which keep the statistics: use "
           "another strategy.kind");
  }

  void click_model() {
    if (!usable({"model.kind", "strategy.kind"}) || !config.model.has_embeddings()) return;
    if (config.server() == nullptr)
      reject({"strategy.kind", "model.kind"},
             "model.kind = \"ctr-dnn\" needs strategy.kind = \"parameter-server\": the rows of its "
             "embeddings live on servers");
    exclude("train.accumulate_steps", config.train.accumulate_steps > 1, "model.kind", true,
            "give a larger train.batch_size, or server.mode = \"half-async\"");
  }

  /// Keys for classes only.
  void classes() {
    if (config.model.has_classes()) {
      if (config.model.classes == 0 && !config.data.keys().files && usable({"data.kind", "model.classes"}))
        reject({"data.kind"}, "model.classes is missing (an integer): data that are made up do not tell it");
      return;
    }
    const std::string loss = cat("model.loss = ", quoted(word(config.model.loss)));
    const auto refuse = [&](std::string_view path, bool has, std::string_view what) {
      if (has && usable({path})) reject({path, "model.loss"}, path, " and ", loss, what);
    };
    const std::string_view of_labels = " exclude each other: leave it out, it is of labels of classes";
    refuse("train.label_smoothing", config.train.label_smoothing > 0.0, of_labels);
    refuse("train.class_weights", !config.train.class_weights.empty(), of_labels);
    refuse("train.mixup", config.train.mixup > 0.0, of_labels);
    refuse("train.cutmix", config.train.cutmix > 0.0, of_labels);
    refuse("data.class_names", !config.data.class_names.empty(), of_labels);
    const std::string of_numbers =
        fmt::format("\"{}\"", fmt::join(kinds_with(&DataKindKeys::numbers), "\" or \""));
    refuse(
        "data.kind", config.data.keys().files && !config.data.keys().numbers,
        cat(" exclude each other: these data have labels of classes, and targets that are numbers come with ",
            of_numbers, ", got ", quoted(word(config.data.kind))));
  }

  void figure_of_best() {
    const BestMetric best = config.checkpoint.best;
    if (!usable({"checkpoint.best"}) || has_figure(config.model.loss, best)) return;
    reject({"checkpoint.best", "model.loss"}, "checkpoint.best = ", quoted(word(best)),
           " needs model.loss = ", losses_of(best), ", it is ", quoted(word(config.model.loss)));
  }

  void target_scale(std::string_view path, const std::vector<double>& values) {
    if (values.empty() || !usable({path, "model.outputs"})) return;
    if (config.model.has_classes()) {
      if (config.data.keys().numbers)
        reject({path}, path,
               " is of numbers that are predicted, and model.loss = \"softmax\" has classes: leave it out");
      return;
    }
    const auto count = static_cast<std::int64_t>(values.size());
    if (!predicts_numbers(config.model.loss))
      reject({path}, path,
             " needs targets that are numbers: model.loss = \"mse\", \"mae\" or \"huber\", it is ",
             quoted(word(config.model.loss)));
    else if (count != 1 && count != config.model.outputs)
      reject({path}, path, " holds one value, or one for each of the ", config.model.outputs,
             " targets (model.outputs), got ", count);
  }

  void targets() {
    target_scale("data.target_mean", config.data.target_mean);
    target_scale("data.target_std", config.data.target_std);
  }
};

}  // namespace

std::vector<Key> model_keys() {
  const Condition mlp = {"model.kind", {"mlp"}};
  const Condition resnet = {"model.kind", {"resnet"}};
  const Condition layers = {"model.kind", {"layers"}};
  const Condition resnet_or_layers = {"model.kind", {"resnet", "layers"}};
  const Condition ctr_dnn = {"model.kind", {"ctr-dnn"}};
  const Condition mlp_or_ctr_dnn = {"model.kind", {"mlp", "ctr-dnn"}};
  return {
      key<&ModelConfig::kind>(
          "model.kind", one_of({"mlp", "resnet", "layers", "ctr-dnn"}), must_match,
          "\"mlp\": fully connected layers; \"resnet\": a residual network for images of three channels; "
          "\"layers\": the layers that the deck lists; \"ctr-dnn\": embeddings of ids and fully connected "
          "layers, which predict clicks. The inputs' size comes from the data"),
      key<&ModelConfig::widths>("model.widths", array_of(0, 1024, positive(16777216)), must_match,
                                "Sizes of the hidden layers; []: none")
          .only_for(mlp_or_ctr_dnn)
          .must_be_given()
          .with_default("for \"ctr-dnn\" [400, 400, 400]"),
      // All but "identity", which would make one linear layer of them all
      key<&ModelConfig::activation>("model.activation",
                                    one_of({words_of<Activation>.begin() + 1, words_of<Activation>.end()}),
                                    must_match, "After each hidden layer")
          .only_for(mlp_or_ctr_dnn)
          .with_default("\"tanh\", for \"ctr-dnn\" \"relu\""),
      key<&ModelConfig::layers>(
          "model.layers", array_of(1, 1024, {}), must_match,
          "One text for each layer, from the inputs to the classes: [\"conv 32 3\", \"batch_norm\", "
          "\"relu\", \"max_pool 2\", \"linear 10\"]. docs/layers.md lists them")
          .only_for(layers)
          .must_be_given(),
      key<&ModelConfig::embedding_width>("model.embedding_width", at_least(1, 65536), must_match,
                                         "Values of a row of the sparse table")
          .only_for(ctr_dnn),
      key<&ModelConfig::embeddings>(
          "model.embeddings", any_value(), must_match,
          "\"shared\": one row for an id, whatever its slot; \"per-slot\": one for each slot")
          .only_for(ctr_dnn),
      key<&ModelConfig::embedding_scale>("model.embedding_scale", at_least(0), must_match,
                                         "Bound of the initial values of rows, which are uniform; the "
                                         "weights of the layers are normal with deviation 1 / √inputs")
          .only_for(ctr_dnn),
      key<&ModelConfig::depth>("model.depth", one_of_numbers({18, 34, 50, 101, 152}), must_match,
                               "Layers with weights")
          .only_for(resnet),
      key<&ModelConfig::batch_norm>(
          "model.batch_norm", any_value(), must_match,
          "Mean and variance of each worker's batch, or of all workers' batches together")
          .only_for(resnet_or_layers),
      key<&ModelConfig::batch_norm_group>("model.batch_norm_group", at_least(0, max_count), must_match,
                                          "Workers, neighbours in rank, whose batches are normalised "
                                          "together; 0: all of them. A divisor of the number of workers")
          .only_for({"model.batch_norm", {"synchronised"}}),
      key<&ModelConfig::recompute>(
          "model.recompute", any_value(), of_machine,
          "Layers that keep their output only and are computed again in the backward pass, to the same bits: "
          "\"blocks\" (all of them), \"conv1\", \"layer1\" (its blocks), or one as \"layer1.0\"")
          .only_for(resnet),
      key<&ModelConfig::dropout>("model.dropout", fraction(), on_request,
                                 "Share of values dropped in training: after each hidden layer of an mlp or "
                                 "ctr-dnn, before the last layer of a resnet")
          .only_for({"model.kind", {"mlp", "resnet", "ctr-dnn"}}),
      key<&ModelConfig::loss>(
          "model.loss", any_value(), must_match,
          "\"softmax\": cross entropy of classes; of numbers, as PyTorch's mean over outputs and samples: "
          "\"mse\" squared errors, \"mae\" absolute ones, \"huber\" (model.huber_delta), \"binary\" cross "
          "entropy of labels that are 0 or 1, each by itself (docs/regression.md)")
          .only_for({"model.kind", {"mlp", "resnet", "layers"}}),
      key<&ModelConfig::classes>(
          "model.classes", at_least(2, 16777216), must_match,
          "Outputs; labels are 0 … classes − 1. Left out: as many as the labels of the "
          "training data are of, which checkpoints keep")
          .only_for({"model.loss", {"softmax"}})
          .may_be_left_out(),
      key<&ModelConfig::outputs>("model.outputs", at_least(1, 16777216), must_match,
                                 "Numbers, or labels that are 0 or 1, that are predicted for a sample")
          .only_for({"model.loss", {"mse", "mae", "huber", "binary"}})
          .must_be_given(),
      key<&ModelConfig::huber_delta>(
          "model.huber_delta", positive(), must_match,
          "Errors up to it count by their squares, larger ones linearly; in units of the scaled targets")
          .only_for({"model.loss", {"huber"}}),
      key<&ModelConfig::initializer>("model.initializer", any_value(), must_match,
                                     "Distribution of the initial weights; biases start at 0")
          .only_for({"model.kind", {"mlp", "layers"}}),
      key<&ModelConfig::initializer_scale>("model.initializer_scale", positive(), must_match,
                                           "Bound of \"uniform\", standard deviation of \"normal\"")
          .only_for({"model.initializer", {"uniform", "normal"}})
          .must_be_given(),
      key<&ModelConfig::initial_weights>(
          "model.initial_weights", any_value(), on_request,
          "Weights to start from, as far as names and shapes agree: a run's folder (its newest good "
          "checkpoint), a checkpoint, an exported model; empty: none")
          .input_path(),
      key<&ModelConfig::fixed_statistics>(
          "model.fixed_statistics", any_value(), must_match,
          "Batch norms, by names or patterns (\"*\": all), that normalise with their running statistics in "
          "training too and leave them as they are, as torch's eval() does"),
      key<&ModelConfig::weight_names>(
          "model.weight_names", any_value(), may_change,
          "How model.initial_weights finds its tensors: \"same\": by their names; \"order\": the first of "
          "the file is the model's first and so on, parameters and statistics each, whatever they are "
          "called; in both where their shapes agree"),
  };
}

void check_model_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  ModelRules rules(config, given, mistakes);
  rules.layers();
  rules.fixed_statistics();
  rules.click_model();
  if (given.is_unusable("model.kind") || given.is_unusable("model.loss")) return;
  rules.classes();
  rules.figure_of_best();
  rules.targets();
}

}  // namespace flotilla::config
