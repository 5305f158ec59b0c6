// SPDX-License-Identifier: Apache-2.0
#include "src/config/rule_checks.hpp"

namespace flotilla::config {
namespace {

bool predicts_numbers(ModelLoss loss) {
  return loss == ModelLoss::mse || loss == ModelLoss::mae || loss == ModelLoss::huber;
}

/// What a figure of validations needs of model.loss; empty: nothing.
std::string_view losses_of(BestMetric best) {
  switch (best) {
    case BestMetric::accuracy_top1:
    case BestMetric::accuracy_top5: return "\"softmax\"";
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

class LossRules : public RuleChecks {
 public:
  using RuleChecks::RuleChecks;

  /// What is of classes only.
  void classes() {
    if (config.model.has_classes()) return;
    const std::string loss = cat("model.loss = ", quoted(word(config.model.loss)));
    const auto refuse = [&](std::string_view path, bool has, std::string_view what) {
      if (has && usable({path})) mistakes.add(origin({path, "model.loss"}), cat(path, " and ", loss, what));
    };
    const std::string_view of_labels = " exclude each other: leave it out, it is of labels of classes";
    refuse("train.label_smoothing", config.train.label_smoothing > 0.0, of_labels);
    refuse("train.mixup", config.train.mixup > 0.0, of_labels);
    refuse("train.cutmix", config.train.cutmix > 0.0, of_labels);
    refuse("data.class_names", !config.data.class_names.empty(), of_labels);
    const DataKind kind = config.data.kind;
    refuse(
        "data.kind", kind != DataKind::random && !config.data.has_arrays(),
        cat(" exclude each other: these data have labels of classes, and targets that are numbers come with "
            "\"hdf5\" or \"numpy\", got ",
            quoted(word(kind))));
  }

  void best_checkpoint() {
    const BestMetric best = config.checkpoint.best;
    if (!usable({"checkpoint.best"}) || has_figure(config.model.loss, best)) return;
    mistakes.add(origin({"checkpoint.best", "model.loss"}),
                 cat("checkpoint.best = ", quoted(word(best)), " needs model.loss = ", losses_of(best),
                     ", it is ", quoted(word(config.model.loss))));
  }

  void target_scale(std::string_view path, const std::vector<double>& values) {
    if (values.empty() || !usable({path, "model.outputs"})) return;
    if (config.model.has_classes()) {
      if (config.data.has_arrays())
        mistakes.add(origin({path}),
                     cat(path,
                         " is of numbers that are predicted, and model.loss = \"softmax\" has "
                         "classes: leave it out"));
      return;
    }
    const auto count = static_cast<std::int64_t>(values.size());
    if (!predicts_numbers(config.model.loss))
      mistakes.add(origin({path}), cat(path,
                                       " needs targets that are numbers: model.loss = \"mse\", \"mae\" or "
                                       "\"huber\", it is ",
                                       quoted(word(config.model.loss))));
    else if (count != 1 && count != config.model.outputs)
      mistakes.add(origin({path}), cat(path, " holds one value, or one for each of the ",
                                       config.model.outputs, " targets (model.outputs), got ", count));
  }

  void targets() {
    target_scale("data.target_mean", config.data.target_mean);
    target_scale("data.target_std", config.data.target_std);
  }
};

}  // namespace

void check_loss_rules(const Config& config, const DeckValues& given, Mistakes& mistakes) {
  LossRules rules(config, given, mistakes);
  if (given.is_unusable("model.kind") || given.is_unusable("model.loss")) return;
  rules.classes();
  rules.best_checkpoint();
  rules.targets();
}

}  // namespace flotilla::config
