// SPDX-License-Identifier: Apache-2.0
#include "src/strategy/local_sgd/local_sgd.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

namespace {

double seconds_since(std::int64_t begin_ns) {
  return static_cast<double>(trace::now_ns() - begin_ns) * 1e-9;
}

/// A part of a model: its statistics only where the fragment has them.
Model part_of(const Model& model, const Fragment& fragment) {
  return {model.parameters.subspan(fragment.begin, fragment.size()),
          fragment.statistics ? model.statistics : DeviceSpan<float>{}};
}

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
  if (config.streaming.fragments > 1) text += cat(", ", config.streaming.fragments, " fragments in turn");
  if (config.streaming.overlap_steps > 0)
    text += cat(", each average ", config.streaming.overlap_steps, " steps on its way");
  if (config.streaming.mix > 0.0) text += cat(", mix ", config.streaming.mix);
  if (config.streaming.eager) text += ", eager";
  if (config.outer.kind != OuterKind::none) text += cat(", outer step \"", config.outer.kind, "\"");
  return text;
}

}  // namespace

LocalSgd::LocalSgd(Parts parts)
    : parts_(std::move(parts)),
      metrics_(parts_.workers),
      rounds_(parts_.averaging.exact != nullptr),
      outer_(parts_.config, parts_.device, parts_.model.parameters.size(), rounds_),
      post_local_(parts_.config.before_begin == BeforeBegin::all_reduce),
      slots_(parts_.update.optimizer().slots()) {
  if (is_eager() && !outer_.velocity().empty()) slots_.push_back({"outer_momentum", outer_.velocity()});
}

bool LocalSgd::all_together_in(std::int64_t step) const {
  return post_local_ && parts_.period->before_begin(step);
}

Pace LocalSgd::pace() const {
  const bool waits = parts_.period->due(steps_ + 1) && (!overlaps() || parts_.period->before_begin(steps_));
  return {.meets = all_together_in(steps_) || waits,
          .max_steps_apart =
              (is_eager() ? 2 : 1) * parts_.period->length() + parts_.config.streaming.overlap_steps};
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
  steps_ = since_.last_averaging = resumed.steps;
  parts_.period->resume(resumed);
  if (!resumed.numbers.empty()) {
    since_.samples = resumed.numbers.at("samples");
    since_.loss = resumed.numbers.at("loss");
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
  const bool keeps_flight = resumed.same_periods || (is_eager() && !parts_.period->before_begin(steps_));
  if (resumed.own_state && keeps_flight && resumed.numbers.contains("fragment")) {
    next_fragment_ = static_cast<std::size_t>(resumed.numbers.at("fragment"));
    if (const auto lands_at = static_cast<std::int64_t>(resumed.numbers.at("lands_at")); lands_at > 0)
      flight_ = {.lands_at = lands_at, .arrived = true};
  }
  parts_.sums.step_together(together_in(steps_));
  if (parts_.sums.together()) parts_.update.share(parts_.step_workers);
}

/// Workers of a group take steps together: they must learn of a request to stop in one step, through their
/// gradients.
void LocalSgd::begin_step(bool asks_to_stop) {
  begin_ns_ = trace::now_ns();
  if (asks_to_stop) metrics_.ask_to_stop();
  if (parts_.config.group_all_reduce && (asks_to_stop || metrics_.stop_requested()))
    parts_.sums.vote_to_stop();
}

std::vector<StateArray> LocalSgd::live() {
  std::vector<StateArray> arrays = state_arrays(parts_.model, &parts_.update.optimizer());
  for (const StateArray& array : outer_.arrays()) arrays.push_back(array);
  if (parts_.config.streaming.travels()) {
    arrays.push_back(
        {"strategy/on_its_way", StateArray::Layout::parameters, parts_.room.averages.parameters});
    if (!parts_.room.averages.statistics.empty() && !parts_.config.streaming.eager)
      arrays.push_back({"strategy/on_its_way_statistics", StateArray::Layout::statistics,
                        parts_.room.averages.statistics});
  }
  return arrays;
}

StepOutcome LocalSgd::exchange(const StepInfo& info, const StepOutcome& own) {
  const std::int64_t steps = steps_ = info.step + 1;
  // Steps of all workers together are counted once: in them every worker has the sums of all.
  const bool all_together = all_together_in(info.step);
  const bool overflowed = own.skipped && !std::isfinite(own.loss);  // the others' loss is more useful
  const bool tells = parts_.speaks && (!all_together || parts_.workers.is_root()) && !overflowed;
  metrics_.contribute(tells ? own : StepOutcome());
  metrics_.contribute_times(seconds_since(begin_ns_), 0.0);
  alike_ = alike_ && all_together;
  parameters_alike_ = parameters_alike_ && all_together;
  slots_alike_ = slots_alike_ && all_together;
  StepOutcome outcome = own;
  outcome.all_workers = false;
  if (flight_ && flight_->lands_at == steps && !is_eager()) land(info);
  bool averages = parts_.period->due(steps);
  if (averages && overlaps() && !parts_.period->before_begin(info.step)) {
    is_eager() ? step_eagerly(info) : launch(info);
    averages = false;
  }
  if (averages || info.synchronise || stops_after(info, own.stop)) {
    outcome = synchronise(info, averages);
  } else {
    outcome.stop = false;
  }
  outcome.period = parts_.period->length() * parts_.config.streaming.fragments;
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
  parts_.traffic.bytes(Sent::sums) += metrics_.sent_bytes();
  since_.samples += metrics_.samples_since();
  since_.loss += metrics_.loss_since();
  since_.computing_s += metrics_.computing_s();
  since_.averaging_s += metrics_.averaging_s();
  if (!averages) return outcome;
  const std::int64_t met_ns = trace::now_ns();  // without the wait for the slowest, which no period shortens
  average(info);
  const auto workers = static_cast<double>(parts_.workers.size());
  const auto steps = static_cast<double>(steps_ - since_.last_averaging);
  outcome.note = parts_.period->averaged({.steps = info.step + 1,
                                          .epochs = info.epochs_after,
                                          .learning_rate = info.learning_rate,
                                          .loss = outcome.loss,
                                          .loss_since = since_.loss / std::max(1.0, since_.samples),
                                          .samples_since = since_.samples,
                                          .averaging_s = since_.averaging_s / workers,
                                          .step_s = since_.computing_s / (workers * steps)});
  since_ = {.last_averaging = steps_};
  metrics_.contribute_times(0.0, seconds_since(met_ns));
  return outcome;
}

void LocalSgd::all_reduce(mpi::Collectives& collectives, DeviceSpan<float> values, Sent what,
                          std::size_t statistics) {
  mpi::all_reduce_now(collectives, values, steps_ - 1);
  parts_.traffic.count(collectives, what, values.size(), statistics);
  parts_.device.flat().scale(values, 1.0F / static_cast<float>(parts_.workers.size()));
}

/// What training leaves alone keeps its bits over an average, which may round equal values.
class LocalSgd::Untouched {
 public:
  Untouched(Parts& parts, const Model& model)
      : frozen_(parts.frozen), fixed_(parts.update.fixed_statistics()) {
    frozen_.take(model.parameters);
    if (fixed_ && !model.statistics.empty()) fixed_->take(model.statistics);
  }
  void put_back(const Model& model) {
    frozen_.put_back(model.parameters);
    if (fixed_ && !model.statistics.empty()) fixed_->put_back(model.statistics);
  }

 private:
  KeptValues& frozen_;
  std::optional<KeptValues>& fixed_;
};

/// Collective. The mean over the workers of a part of `model`.
void LocalSgd::average_values(const Model& model, const Fragment& fragment) {
  if (parts_.workers.size() == 1) return;
  Untouched untouched(parts_, model);
  reduce_values(model, fragment);
  untouched.put_back(model);
}

/// Collective. The mean over the workers of a part of `model`. Over a wire that rounds go the differences
/// from what all had before, whose rounding does not matter so much, and no statistics. To a scaled wire the
/// errors of the last averaging are added: a consensus, which must not change training, goes around it, and
/// so does one of workers that have nothing in common.
void LocalSgd::reduce_values(const Model& model, const Fragment& fragment) {
  const Model part = part_of(model, fragment);
  mpi::Collectives& collectives = parts_.averaging.first();
  const bool is_consensus = model.parameters.address() == parts_.room.consensus.parameters.address();
  const Sent what = is_consensus ? Sent::evaluation : Sent::parameters;
  const std::size_t counted = is_consensus ? 0 : part.statistics.size();
  if (part.parameters.empty()) return all_reduce(exact(), part.statistics, what, counted);
  const bool goes_around = is_consensus && (parts_.averaging.rounds() || is_eager());
  if (!rounds_ || goes_around) return all_reduce(exact(), all_of(part), what, counted);
  FlatMath& flat = parts_.device.flat();
  const DeviceSpan<float> anchor = anchor_of(fragment);
  flat.axpy(-1.0F, anchor, part.parameters);
  all_reduce(collectives, part.parameters, what);
  flat.axpy(1.0F, anchor, part.parameters);
  if (!part.statistics.empty()) all_reduce(exact(), part.statistics, what, counted);
}

/// Collective. The optimizer's slots ← their mean; `consensus` is where averaging can reach.
void LocalSgd::average_slots() {
  const DeviceSpan<float> room = parts_.room.consensus.parameters;
  FlatMath& flat = parts_.device.flat();
  for (const OptimizerSlot& slot : slots_) {
    flat.copy(slot.values, room);
    all_reduce(exact(), room, Sent::slots);
    flat.copy(room, slot.values);
  }
}

/// Collective. One model for all, from which all go on.
void LocalSgd::average(const StepInfo& info) {
  const trace::Span span("averaging");
  parts_.watchdog.beat("averaging", info.step);
  const bool begun = !parts_.period->before_begin(info.step);
  if (begun) {
    take_average(parts_.room.fragments[next_fragment_], info);
    next_fragment_ = (next_fragment_ + 1) % parts_.room.fragments.size();
  } else {
    if (!alike_) average_values(parts_.model, whole());
    outer_.set_anchor(parts_.model.parameters);
  }
  if (parts_.room.fragments.size() == 1 || !begun) {
    parameters_alike_ = !begun || parts_.config.streaming.mix == 0.0;
    alike_ = parameters_alike_ && (averages_statistics() || parts_.model.statistics.empty());
  }
  if (!begun) return;
  FlatMath& flat = parts_.device.flat();
  slots_alike_ = slots_alike_ || parts_.config.momentum != LocalMomentum::local;
  if (parts_.config.momentum == LocalMomentum::average && parts_.workers.size() > 1) {
    average_slots();
  } else if (parts_.config.momentum == LocalMomentum::reset) {
    for (const OptimizerSlot& slot : slots_) flat.fill(slot.values, 0.0F);
    parts_.update.optimizer().set_steps(0);  // bias corrections restart with the moments
  }
}

/// Collective. Every worker goes on with the average of this fragment, which is made in place unless the
/// worker's own values are needed beside it.
void LocalSgd::take_average(const Fragment& fragment, const StepInfo& info) {
  FlatMath& flat = parts_.device.flat();
  const bool mixes = parts_.config.streaming.mix > 0.0;
  const Model& into = mixes ? parts_.room.averages : parts_.model;
  const Model own = part_of(parts_.model, fragment);
  const Model average = part_of(into, fragment);
  if (mixes) {
    flat.copy(own.parameters, average.parameters);
    flat.copy(own.statistics, average.statistics);
  }
  if (!alike_) average_values(into, fragment);
  outer_.step(average.parameters, fragment.begin, info.learning_rate);
  if (mixes) mix(average, own);
}

/// The values of the next fragment begin to be summed.
void LocalSgd::launch(const StepInfo& info) {
  const trace::Span span("sending a fragment");
  const Fragment& fragment = parts_.room.fragments[next_fragment_];
  const Model own = part_of(parts_.model, fragment);
  const Model sent = part_of(parts_.room.averages, fragment);
  FlatMath& flat = parts_.device.flat();
  flat.copy(own.parameters, sent.parameters);
  flat.copy(own.statistics, sent.statistics);
  if (parts_.room.lanes) {
    if (rounds_) flat.axpy(-1.0F, anchor_of(fragment), sent.parameters);
    const std::size_t statistics = sent.statistics.size();
    send(parts_.averaging.first(), rounds_ ? sent.parameters : all_of(sent), rounds_ ? 0 : statistics);
    if (rounds_ && statistics > 0) send(exact(), sent.statistics, statistics);
  }
  flight_ = {.lands_at = info.step + 1 + parts_.config.streaming.overlap_steps};
  next_fragment_ = (next_fragment_ + 1) % parts_.room.fragments.size();
  parts_.period->averaged({.steps = info.step + 1, .epochs = info.epochs_after});
}

/// Their sum over the workers sets out, over the next lane.
void LocalSgd::send(mpi::Collectives& collectives, DeviceSpan<float> values, std::size_t statistics) {
  parts_.room.lanes->start(values, steps_ - 1);
  parts_.traffic.count(collectives, Sent::parameters, values.size(), statistics);
}

/// Collective. Takes the sum that is on its way since the last period, and sends this period's difference.
void LocalSgd::step_eagerly(const StepInfo& info) {
  const trace::Span span("eager outer step");
  const Model& own = parts_.model;
  const DeviceSpan<float> sum = parts_.room.averages.parameters;
  if (flight_)
    await(info);
  else
    parts_.device.flat().fill(sum, 0.0F);
  Untouched untouched(parts_, own);
  outer_.anticipate(own.parameters, sum, parts_.workers.size());
  untouched.put_back(own);
  send(parts_.averaging.first(), sum);
  outer_.step(own.parameters, 0, info.learning_rate);
  parts_.period->averaged({.steps = info.step + 1, .epochs = info.epochs_after});
  flight_ = {.lands_at = info.step + 1 + parts_.period->length()};
}

/// Collective. Waits for the sum that is on its way.
void LocalSgd::arrive() {
  if (!flight_ || std::exchange(flight_->arrived, true)) return;
  const Fragment& fragment = flying();
  const Model average = part_of(parts_.room.averages, fragment);
  FlatMath& flat = parts_.device.flat();
  if (parts_.room.lanes) {
    parts_.room.lanes->finish();
    if (is_eager()) return;
    for (const DeviceSpan<float> sum : {average.parameters, average.statistics})
      flat.scale(sum, 1.0F / static_cast<float>(parts_.workers.size()));
    if (rounds_) flat.axpy(1.0F, anchor_of(fragment), average.parameters);
  }
}

/// Collective. Waits in a step for the sum that is on its way.
void LocalSgd::await(const StepInfo& info) {
  const trace::Span span("waiting for a fragment");
  parts_.watchdog.beat("waiting for an average that is on its way", info.step);
  if (parts_.room.lanes)
    metrics_.attend(info.step + 1, [this] { return flight_->arrived || parts_.room.lanes->finished(); });
  arrive();
}

/// Collective. The average that is on its way takes effect.
void LocalSgd::land(const StepInfo& info) {
  await(info);
  const Fragment& fragment = flying();
  const Model average = part_of(parts_.room.averages, fragment);
  Untouched untouched(parts_, parts_.model);
  untouched.put_back(parts_.room.averages);
  outer_.step(average.parameters, fragment.begin, info.learning_rate);
  mix(average, part_of(parts_.model, fragment));
  flight_.reset();
}

/// own ← α own + (1 − α) average
void LocalSgd::mix(const Model& average, const Model& own) {
  const auto alpha = static_cast<float>(parts_.config.streaming.mix);
  if (alpha == 1.0F) return;
  FlatMath& flat = parts_.device.flat();
  for (const auto& [from, to] :
       {std::pair(average.parameters, own.parameters), std::pair(average.statistics, own.statistics)}) {
    if (alpha == 0.0F) {
      flat.copy(from, to);
    } else {
      flat.scale(to, alpha);
      flat.axpy(1.0F - alpha, from, to);
    }
  }
}

Model LocalSgd::consensus() {
  if (alike_ || parts_.workers.size() == 1) return parts_.model;
  parts_.watchdog.beat("averaging for a consensus", steps_);
  arrive();  // one thread at a time uses the all-reduce
  parts_.device.flat().copy(all_of(parts_.model), all_of(parts_.room.consensus));
  if (parameters_alike_) {
    average_values(parts_.room.consensus, {.statistics = true});
  } else {
    average_values(parts_.room.consensus, {0, parts_.model.parameters.size(), true});
  }
  return parts_.room.consensus;
}

StrategyState LocalSgd::state() {
  arrive();
  StrategyState state{.shared = live(),
                      .own = {},
                      .numbers = parts_.period->numbers(),
                      .optimizer_steps = parts_.update.optimizer().steps()};
  state.numbers["samples"] = since_.samples;
  state.numbers["alike"] = alike_ ? 1.0 : 0.0;
  state.numbers["parameters_alike"] = parameters_alike_ ? 1.0 : 0.0;
  state.numbers["slots_alike"] = slots_alike_ ? 1.0 : 0.0;
  state.numbers["loss"] = since_.loss;
  if (overlaps() || parts_.room.fragments.size() > 1) {
    state.numbers["fragment"] = static_cast<double>(next_fragment_);
    state.numbers["lands_at"] = flight_ ? static_cast<double>(flight_->lands_at) : 0.0;
  }
  state.own = state_arrays(parts_.model, &parts_.update.optimizer());
  if (is_eager())
    for (const StateArray& array : outer_.arrays()) state.own.push_back(array);
  for (const StateArray& errors : parts_.averaging.error_arrays(0, parts_.model.parameters.size()))
    state.own.push_back(errors);
  if (parts_.workers.size() == 1) return state;
  const Model model = consensus();
  state.shared[0].values = model.parameters;
  state.shared[1].values = model.statistics;
  return state;
}

Replicated LocalSgd::replicated() const {
  const DeviceSpan<float> anchor = is_eager() ? DeviceSpan<float>() : outer_.anchor();
  const Model parameters = {parameters_alike_ ? parts_.model.parameters : anchor, {}};
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
  const std::size_t floats = all_of(parts_.room.consensus).size() + all_of(parts_.room.averages).size() +
                             outer_.held() + averaging.errors.size();
  text.held_bytes = static_cast<std::int64_t>(floats * sizeof(float));
  return text;
}

}  // namespace flotilla
