// SPDX-License-Identifier: Apache-2.0
#include "src/train/validations.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

Validations::Validations(const Parts& parts, const std::map<std::string, double>& numbers)
    : parts_(parts), best_(parts.run.config, numbers) {
  const ScheduleConfig& schedule = parts.run.config.schedule;
  if (schedule.kind != ScheduleKind::plateau) return;
  plateau_.emplace(schedule.plateau, best_.less_is_better(), numbers);
  parts_.state.reductions = plateau_->reductions();
}

std::map<std::string, double> Validations::numbers() const {
  std::map<std::string, double> numbers = best_.numbers();
  if (plateau_) numbers.merge(plateau_->numbers());
  return numbers;
}

bool Validations::is_due(const Position& position) const {
  const std::int64_t every = parts_.run.config.validation.every;
  return position.offset == 0 && every > 0 && position.epoch % every == 0;
}

void Validations::validate(std::optional<double> epoch_s) {
  RunParts& run = parts_.run;
  const std::int64_t step = parts_.state.step;
  if (!run.data.validation || last_step_ == step) return;
  const std::int64_t begin_ns = trace::now_ns();
  const Stopwatch watch(parts_.state.times.validation_ns);
  const std::int64_t epoch = parts_.state.epoch_of_last_step();
  if (parts_.mlperf != nullptr) parts_.mlperf->validation_starts(epoch + 1, step);
  parts_.saves.wait_until_read(step);
  run.machine.watchdog.beat("validating", step);
  const Model model = run.sync.strategy->consensus();
  parts_.loaders.estimate_statistics(parts_.state.position, model);
  const Evaluation result = evaluate(model);
  std::optional<Evaluation> average;
  if (run.sync.update != nullptr)
    if (const Model averaged = run.sync.update->average(); !averaged.parameters.empty())
      average = evaluate(averaged);
  run.model.evaluate_with(run.model.weights);
  ValidationReport report{.step = step,
                          .epoch = epoch,
                          .figures = result.figures,
                          .samples = result.samples,
                          .outputs = result.outputs,
                          .epoch_s = parts_.state.position.offset == 0 ? epoch_s : std::nullopt,
                          .classes = run.config.model.classes};
  if (average) report.averages = reported_averages(average->figures);
  // A run that is cut short validates where the whole one does not: that must not change how it goes on.
  if (is_due(parts_.state.position) || run.config.validation.every == 0) compare(report);
  parts_.reporter.validation(report);
  if (parts_.mlperf != nullptr) parts_.mlperf->validation_stops(best_.figure(report));
  last_step_ = step;
  longest_ns_ = std::max(longest_ns_, trace::now_ns() - begin_ns);
}

Evaluation Validations::evaluate(const Model& model) {
  RunParts& run = parts_.run;
  const std::int64_t step = parts_.state.step;
  run.model.evaluate_with(model);
  return flotilla::evaluate({.network = run.model.evaluator(),
                             .data = *run.data.validation,
                             .options = parts_.loaders.beside_steps(),
                             .sums = run.model.validation_sums.span().subspan(0, loss_sums),
                             .inputs = evaluation_inputs(run.sync.embeddings.get(), step)},
                            run.machine.workers, run.model.shards(), run.config,
                            [&run, step](const Batch&) { run.machine.watchdog.beat("validating", step); });
}

/// Workers may differ in the last bit of the figure, so all use worker 0's.
void Validations::compare(ValidationReport& report) {
  std::array<double, 1> figure{best_.figure(report)};
  parts_.run.machine.workers.broadcast(std::span<double>(figure));
  improved_ = best_.add(figure[0], report) || improved_;
  best_.put_into(report);
  if (plateau_) follow_plateau(figure[0]);
}

/// Validations in the warm-up do not count: its learning rate is not that of the schedule.
void Validations::follow_plateau(double figure) {
  const RunParts& run = parts_.run;
  const double epochs = epochs_at(run.data.sharding, parts_.state.position);
  if (epochs < run.config.schedule.warmup_epochs || !plateau_->add(figure, parts_.state.step)) return;
  parts_.state.reductions = plateau_->reductions();
  const Schedule schedule(run.config.schedule, run.data.sharding.global_batch());
  parts_.reporter.say(cat("plateau      no better validation in ", run.config.schedule.plateau.patience + 1,
                          ": the learning rate is ",
                          schedule.at({.epochs = epochs, .reductions = parts_.state.reductions})));
}

void Validations::report_best() const {
  if (!keeps_best() || !best_.is_known() || !parts_.saves.keeps_consensus()) return;
  const Config& config = parts_.run.config;
  parts_.reporter.say(cat("best         ", best_.text(), ": ", config.run.output, "/checkpoints/best.h5",
                          best_.reached_target()    ? "; train.target is reached"
                          : best_.out_of_patience() ? cat("; no better one in ", config.train.patience,
                                                          " validations (train.patience)")
                                                    : ""),
                      Message::result);
}

double Validations::expected_s() const {
  const RunParts& run = parts_.run;
  return longest_ns_ > 0
             ? seconds(longest_ns_)
             : parts_.state.times.mean_step_s() * static_cast<double>(run.data.validation->size()) /
                   static_cast<double>(run.data.sharding.global_batch());
}

}  // namespace flotilla
