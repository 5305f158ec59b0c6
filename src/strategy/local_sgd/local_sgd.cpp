// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/local_sgd/local_sgd.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

OuterStep::OuterStep(const OuterConfig& config, Device& device, std::size_t parameters, bool keep_anchor)
    : kind_(config.kind),
      rate_(static_cast<float>(config.learning_rate)),
      momentum_(static_cast<float>(config.momentum)),
      flat_(device.flat()) {
  if (kind_ == OuterKind::none && !keep_anchor) return;
  anchor_storage_ = device.memory().allocate(parameters);
  anchor_ = anchor_storage_.span();
  if (kind_ == OuterKind::none || kind_ == OuterKind::sgd) return;
  velocity_storage_ = device.memory().allocate(parameters);
  velocity_ = velocity_storage_.span();
}

void OuterStep::set_anchor(DeviceSpan<const float> parameters) {
  if (!anchor_.empty()) flat_.copy(parameters, anchor_);
}

void OuterStep::step(DeviceSpan<float> parameters, double learning_rate) {
  const bool nothing_learnt = kind_ == OuterKind::momentum && learning_rate == 0.0;
  if (kind_ == OuterKind::none || nothing_learnt) return set_anchor(parameters);
  const auto eta = static_cast<float>(learning_rate);
  const DeviceSpan<float> difference = parameters;  // g, until θ takes its place
  flat_.scale(difference, -1.0F);
  flat_.axpy(1.0F, anchor_, difference);
  if (kind_ != OuterKind::sgd) {
    flat_.scale(velocity_, momentum_);
    flat_.axpy(kind_ == OuterKind::momentum ? 1.0F / eta : 1.0F, difference, velocity_);
  }
  if (kind_ == OuterKind::momentum) {
    flat_.axpy(-rate_ * eta, velocity_, anchor_);
  } else {
    flat_.axpy(-rate_, difference, anchor_);
    if (kind_ == OuterKind::nesterov) flat_.axpy(-rate_ * momentum_, velocity_, anchor_);
  }
  flat_.copy(anchor_, parameters);
}

std::vector<StateArray> OuterStep::arrays() {
  std::vector<StateArray> arrays;
  if (!anchor_.empty()) arrays.push_back({"strategy/averaged", StateArray::Layout::parameters, anchor_});
  if (!velocity_.empty())
    arrays.push_back({"strategy/outer_momentum", StateArray::Layout::parameters, velocity_});
  return arrays;
}

namespace {

/// Parameters and the statistics stored after them.
DeviceSpan<float> all_of(const Model& model) {
  return {model.parameters.address(), model.parameters.size() + model.statistics.size()};
}

/// "period 8, from step 500 on".
std::string describe_period(const LocalSgdConfig& config) {
  std::string text = config.adaptive ? cat("rule \"", config.rule, "\", first period ", config.initial_period)
                                     : cat("period ", config.period);
  if (config.warm_up != PeriodWarmUp::none) text += cat(" after a ", config.warm_up, " warm-up");
  if (config.begin_step > 0) text += cat(", from step ", config.begin_step, " on");
  if (config.begin_epoch > 0.0) text += cat(", from epoch ", config.begin_epoch, " on");
  if (config.group_all_reduce) text += ", gradients reduced inside groups in every step";
  if (config.outer.kind != OuterKind::none) text += cat(", outer step \"", config.outer.kind, "\"");
  return text;
}

}  // namespace

LocalSgd::LocalSgd(Parts parts)
    : parts_(std::move(parts)),
      metrics_(parts_.workers),
      rounds_(parts_.averaging.exact != nullptr),
      outer_(parts_.config.outer, parts_.device, parts_.model.parameters.size(), rounds_),
      post_local_(parts_.config.before_begin == BeforeBegin::all_reduce),
      slots_(parts_.update.optimizer().slots()) {
  if (parts_.workers.size() == 1) return;
  for (const OptimizerSlot& slot : slots_)
    slot_means_.push_back(parts_.device.memory().allocate(slot.values.size()));
}

bool LocalSgd::all_together_in(std::int64_t step) const {
  return post_local_ && parts_.period->before_begin(step);
}

Pace LocalSgd::pace() const {
  return {.meets = all_together_in(steps_) || parts_.period->due(steps_ + 1),
          .max_steps_apart = parts_.period->length()};
}

bool LocalSgd::together_in(std::int64_t step) const {
  return parts_.config.group_all_reduce || all_together_in(step);
}

void LocalSgd::start() {
  broadcast(parts_.device, parts_.workers, live());
  parts_.averaging.clear_errors();
  outer_.set_anchor(parts_.model.parameters);
  parts_.sums.step_together(together_in(0));
}

void LocalSgd::resume(const Resumption& resumed) {
  steps_ = resumed.steps;
  parts_.period->resume(resumed);
  if (!resumed.numbers.empty()) {
    samples_ = resumed.numbers.at("samples");
    loss_ = resumed.numbers.at("loss");
  }
  // Absent in checkpoints of earlier versions. Averaging equal values again does no harm.
  const auto said = [&](const char* name) {
    const auto number = resumed.numbers.find(name);
    return number != resumed.numbers.end() && number->second > 0.0;
  };
  // Steps that all take together need equal workers, whatever the checkpoint says of its own.
  const bool one_model = !resumed.own_state || all_together_in(steps_);
  alike_ = one_model || said("alike");
  parameters_alike_ = one_model || said("parameters_alike");
  slots_alike_ = one_model || said("slots_alike");
  parts_.sums.step_together(together_in(steps_));
  if (parts_.sums.together()) parts_.update.share(parts_.step_workers);
}

/// Workers of a group take steps together: they must learn of a request to stop in one step, through their
/// gradients.
void LocalSgd::begin_step(bool asks_to_stop) {
  if (asks_to_stop) metrics_.ask_to_stop();
  if (parts_.config.group_all_reduce && (asks_to_stop || metrics_.stop_requested()))
    parts_.sums.vote_to_stop();
}

std::vector<StateArray> LocalSgd::live() {
  std::vector<StateArray> arrays = state_arrays(parts_.model, &parts_.update.optimizer());
  for (const StateArray& array : outer_.arrays()) arrays.push_back(array);
  return arrays;
}

StepOutcome LocalSgd::exchange(const StepInfo& info, const StepOutcome& own) {
  const std::int64_t steps = steps_ = info.step + 1;
  // Steps of all workers together are counted once: in them every worker has the sums of all.
  const bool all_together = all_together_in(info.step);
  const bool overflowed = own.skipped && !std::isfinite(own.loss);  // the others' loss is more useful
  const bool tells = parts_.speaks && (!all_together || parts_.workers.is_root()) && !overflowed;
  metrics_.contribute(tells ? own : StepOutcome());
  alike_ = alike_ && all_together;
  parameters_alike_ = parameters_alike_ && all_together;
  slots_alike_ = slots_alike_ && all_together;
  StepOutcome outcome = own;
  outcome.all_workers = false;
  const bool due = parts_.period->due(steps);
  if (due || info.synchronise || stops_after(info, own.stop)) {
    outcome = synchronise(info, due);
  } else {
    outcome.stop = false;
  }
  outcome.period = parts_.period->length();
  outcome.skipped = own.skipped;
  outcome.unrecoverable = own.unrecoverable;
  outcome.skipped_by_all = own.skipped && all_together;
  parts_.sums.step_together(together_in(steps));
  return outcome;
}

/// Whether a worker wants to stop, and all have agreed to stop after this step.
bool LocalSgd::stops_after(const StepInfo& info, bool group_stops) {
  return (parts_.config.group_all_reduce ? group_stops : metrics_.stop_requested()) &&
         metrics_.stops_after(info, parts_.watchdog);
}

/// Collective.
StepOutcome LocalSgd::synchronise(const StepInfo& info, bool averages) {
  StepOutcome outcome;
  {
    const trace::Span span("wait for the other workers");
    parts_.watchdog.beat("waiting for the other workers", info.step);
    outcome = metrics_.sync(info.step + 1);
  }
  ++parts_.traffic.synchronisations;
  parts_.traffic.sent_bytes += metrics_.sent_bytes();
  samples_ += metrics_.samples_since();
  loss_ += metrics_.loss_since();
  if (!averages) return outcome;
  average(info);
  outcome.note = parts_.period->averaged({.steps = info.step + 1,
                                          .epochs = info.epochs_after,
                                          .learning_rate = info.learning_rate,
                                          .loss = outcome.loss,
                                          .loss_since = loss_ / std::max(1.0, samples_),
                                          .samples_since = samples_});
  samples_ = loss_ = 0.0;
  return outcome;
}

void LocalSgd::all_reduce(mpi::Collectives& collectives, DeviceSpan<float> values) {
  mpi::all_reduce_now(collectives, values, steps_ - 1);
  parts_.traffic.sent_bytes += static_cast<std::int64_t>(collectives.sent_bytes(values.size()));
  parts_.device.flat().scale(values, 1.0F / static_cast<float>(parts_.workers.size()));
}

/// Collective. The mean over the workers of what `model` holds. A mean of equal values may be rounded: what
/// training leaves alone keeps its bits.
void LocalSgd::average_values(const Model& model) {
  if (parts_.workers.size() == 1) return;
  KeptValues* const frozen = model.parameters.empty() ? nullptr : &parts_.frozen;
  KeptValues* const fixed = model.statistics.empty() || !parts_.update.fixed_statistics()
                                ? nullptr
                                : &*parts_.update.fixed_statistics();
  if (frozen != nullptr) frozen->take(model.parameters);
  if (fixed != nullptr) fixed->take(model.statistics);
  reduce_values(model);
  if (frozen != nullptr) frozen->put_back(model.parameters);
  if (fixed != nullptr) fixed->put_back(model.statistics);
}

/// Collective. The mean over the workers of what `model` holds. Over a wire that rounds go the differences
/// from what all had before, whose rounding does not matter so much, and no statistics. To a scaled wire the
/// errors of the last averaging are added: a consensus, which must not change training, goes around it.
void LocalSgd::reduce_values(const Model& model) {
  if (model.parameters.empty()) return all_reduce(exact(), model.statistics);
  mpi::Collectives& collectives = parts_.averaging.first();
  const bool is_own = model.parameters.address() == parts_.model.parameters.address();
  if (!rounds_ || (parts_.averaging.rounds() && !is_own)) return all_reduce(exact(), all_of(model));
  FlatMath& flat = parts_.device.flat();
  flat.axpy(-1.0F, outer_.anchor(), model.parameters);
  all_reduce(collectives, model.parameters);
  flat.axpy(1.0F, outer_.anchor(), model.parameters);
  if (!model.statistics.empty()) all_reduce(exact(), model.statistics);
}

/// Collective. The optimizer's slots ← their mean; `consensus` is where averaging can reach.
void LocalSgd::average_slots() {
  const DeviceSpan<float> room = parts_.consensus.parameters;
  FlatMath& flat = parts_.device.flat();
  std::size_t next = 0;
  for (const OptimizerSlot& slot : slots_) {
    flat.copy(slot.values, room);
    all_reduce(exact(), room);
    flat.copy(room, slot_means_[next++].span());
  }
}

/// Collective. One model for all, from which all go on.
void LocalSgd::average(const StepInfo& info) {
  const trace::Span span("averaging");
  parts_.watchdog.beat("averaging", info.step);
  const bool begun = !parts_.period->before_begin(info.step);
  FlatMath& flat = parts_.device.flat();
  if (!alike_) {
    if (averages_statistics()) {
      average_values(parts_.model);
    } else {
      average_values({parts_.model.parameters, {}});
    }
  }
  if (begun) {
    outer_.step(parts_.model.parameters, info.learning_rate);
  } else {
    outer_.set_anchor(parts_.model.parameters);
  }
  parameters_alike_ = true;
  alike_ = averages_statistics() || parts_.model.statistics.empty();
  if (!begun) return;
  slots_alike_ = slots_alike_ || parts_.config.momentum != LocalMomentum::local;
  if (parts_.config.momentum == LocalMomentum::average && parts_.workers.size() > 1) {
    average_slots();
    std::size_t next = 0;
    for (const OptimizerSlot& slot : slots_) flat.copy(slot_means_[next++].span(), slot.values);
  } else if (parts_.config.momentum == LocalMomentum::reset) {
    for (const OptimizerSlot& slot : slots_) flat.fill(slot.values, 0.0F);
    parts_.update.optimizer().set_steps(0);  // bias corrections restart with the moments
  }
}

Model LocalSgd::consensus() {
  if (alike_ || parts_.workers.size() == 1) return parts_.model;
  parts_.watchdog.beat("averaging for a consensus", steps_);
  parts_.device.flat().copy(all_of(parts_.model), all_of(parts_.consensus));
  if (parameters_alike_) {
    average_values({{}, parts_.consensus.statistics});
  } else {
    average_values(parts_.consensus);
  }
  return parts_.consensus;
}

StrategyState LocalSgd::state() {
  StrategyState state{.shared = live(),
                      .own = {},
                      .numbers = parts_.period->numbers(),
                      .optimizer_steps = parts_.update.optimizer().steps()};
  state.numbers["samples"] = samples_;
  state.numbers["alike"] = alike_ ? 1.0 : 0.0;
  state.numbers["parameters_alike"] = parameters_alike_ ? 1.0 : 0.0;
  state.numbers["slots_alike"] = slots_alike_ ? 1.0 : 0.0;
  state.numbers["loss"] = loss_;
  state.own = state_arrays(parts_.model, &parts_.update.optimizer());
  for (const StateArray& errors : parts_.averaging.error_arrays(0, parts_.model.parameters.size()))
    state.own.push_back(errors);
  if (parts_.workers.size() == 1) return state;
  average_slots();  // first, because it uses the consensus array
  const Model model = consensus();
  state.shared[0].values = model.parameters;
  state.shared[1].values = model.statistics;
  for (std::size_t i = 0; i < slot_means_.size(); ++i) state.shared[2 + i].values = slot_means_[i].span();
  return state;
}

Replicated LocalSgd::replicated() const {
  const Model parameters = {parameters_alike_ ? parts_.model.parameters : outer_.anchor(), {}};
  return {.model = alike_ ? parts_.model : parameters, .slots = slots_alike_, .groups = parts_.groups};
}

StrategyDescription LocalSgd::description() const {
  const Reduction& averaging = parts_.averaging;
  const bool statistics = averages_statistics() && !parts_.model.statistics.empty();
  StrategyDescription text{
      .transport = std::string(averaging.kind->word),
      .lines = {cat("strategy     ", parts_.config.kind(), ", ", describe_period(parts_.config)),
                cat("averaging    ", averaging.description, " of parameters",
                    statistics ? " and statistics" : "")}};
  for (const std::string& line : averaging.table) text.lines.push_back(cat("  measured   ", line));
  if (parts_.step_workers.size() > 1)
    for (std::string& line : parts_.sums.description()) text.lines.push_back(std::move(line));
  std::size_t floats = all_of(parts_.consensus).size() + outer_.held() + averaging.errors.size();
  for (const Storage& mean : slot_means_) floats += mean.size();
  text.held_bytes = static_cast<std::int64_t>(floats * sizeof(float));
  return text;
}

}  // namespace flotilla
