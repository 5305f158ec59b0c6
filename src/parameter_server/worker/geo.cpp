// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/parameter_server/worker/served_worker.hpp"
#include "src/strategy/buckets.hpp"
#include "src/strategy/overflow.hpp"

namespace flotilla {

namespace {

/// server.mode = "geo" (GEO-SGD; docs/fleet.md, "Parameter servers"): each worker takes optimizer steps of
/// its own and pushes every push_every steps its change of the parameters, divided by the workers, and pulls
/// the others' changes:
///
///     Δ = (p − old) / workers;  server: s ← s + Δ;  old ← old + Δ;  p ← p + (s − old);  old ← s
///
/// Running statistics are exchanged in the same way, and the rows of embeddings (local_rows.hpp) that were
/// trained since the last push.
class Geo : public Strategy {
 public:
  /// @param optimizer takes the steps
  Geo(const ServedWorker& worker, Optimizer& optimizer);

  void start() override;
  void resume(const Resumption& resumed) override;
  void begin_step(bool asks_to_stop) override {
    if (asks_to_stop) metrics_.ask_to_stop();
  }
  StepOutcome exchange(const StepInfo& info, const StepOutcome& own) override;
  Model consensus() override;
  StrategyState state() override;
  std::vector<StateArray> live() override;
  Replicated replicated() const override { return {}; }
  Pace pace() const override {
    return independent_pace(parts_.server(), parts_.server().push_every, since_push_);
  }
  StrategyDescription description() const override;

 private:
  StepOutcome push_pull_step(std::int64_t step);
  void apply_pulled();
  Model model_in(Storage& array) const;

  ServedWorker parts_;
  Optimizer& optimizer_;
  MetricSync metrics_;
  Storage old_;                  ///< The servers' values at this worker's last pull
  Storage pushed_;               ///< Buffer for differences
  Storage servers_;              ///< Buffer for the servers' values: the model to evaluate
  std::int64_t since_push_ = 0;  ///< Steps since the last push
  std::int64_t steps_ = 0;
};

Geo::Geo(const ServedWorker& worker, Optimizer& optimizer)
    : parts_(worker),
      optimizer_(optimizer),
      metrics_(parts_.workers),
      old_(parts_.device.memory().allocate(parts_.values.size())),
      pushed_(parts_.device.memory().allocate(parts_.values.size())),
      servers_(parts_.device.memory().allocate(parts_.values.size())) {}

Model Geo::model_in(Storage& array) const {
  const std::size_t statistics = parts_.model.statistics.size();
  const std::size_t leading = header_size + statistics;
  return {array.span().subspan(leading, parts_.values.size() - leading),
          array.span().subspan(header_size, statistics)};
}

void Geo::start() {
  fill_servers(parts_, nullptr, 0);
  std::vector<StateArray> slots = state_arrays({}, &optimizer_);
  broadcast(parts_.device, parts_.workers, std::span(slots).subspan(2));
  parts_.device.flat().copy(parts_.values, old_.span());
}

void Geo::resume(const Resumption& resumed) {
  steps_ = resumed.steps;
  // Worker 0 restores the servers' values from its copy.
  if (resumed.own_state) parts_.servers.fill(parts_.push_staging.read(old_.span()), {}, 0);
}

std::vector<StateArray> Geo::live() {
  std::vector<StateArray> arrays = state_arrays(parts_.model, &optimizer_);
  const Model old = model_in(old_);
  arrays.push_back({"strategy/geo_old", StateArray::Layout::parameters, old.parameters});
  if (!old.statistics.empty())
    arrays.push_back({"strategy/geo_old_statistics", StateArray::Layout::statistics, old.statistics});
  return arrays;
}

/// Takes over what the servers have: the others' differences.
void Geo::apply_pulled() {
  FlatMath& flat = parts_.device.flat();
  const std::size_t rest = parts_.values.size() - header_size;
  const auto behind = [&](DeviceSpan<float> array) { return array.subspan(header_size, rest); };
  const DeviceSpan<float> difference = behind(pushed_.span());
  flat.copy(behind(servers_.span()), difference);
  flat.axpy(-1.0F, behind(old_.span()), difference);
  flat.axpy(1.0F, difference, behind(parts_.values));
  flat.copy(behind(servers_.span()), behind(old_.span()));
}

StepOutcome Geo::push_pull_step(std::int64_t step) {
  const trace::Span span("push and pull");
  parts_.watchdog.beat("push to the servers and pull", step);
  FlatMath& flat = parts_.device.flat();
  const DeviceSpan<float> pushed = pushed_.span();
  flat.copy(parts_.values, pushed);
  flat.axpy(-1.0F, old_.span(), pushed);
  const float share = 1.0F / static_cast<float>(parts_.workers.size());
  flat.scale(pushed, share);
  flat.copy(parts_.gradients.subspan(0, header_size), pushed.subspan(0, header_size));
  if (parts_.embeddings != nullptr) parts_.embeddings->push_differences(share);
  const StepOutcome answer =
      push_pull(parts_, {.step = step, .batches = since_push_, .from = pushed, .to = servers_.span()});
  const std::size_t rest = pushed.size() - header_size;
  flat.axpy(1.0F, pushed.subspan(header_size, rest), old_.span().subspan(header_size, rest));
  apply_pulled();
  since_push_ = 0;
  return answer;
}

StepOutcome Geo::exchange(const StepInfo& info, const StepOutcome& updated) {
  steps_ = info.step + 1;
  StepOutcome own = updated;
  own.all_workers = false;
  exclude_own_sums(parts_.device, own, parts_.gradients);
  StepOutcome outcome = own;
  outcome.stop = false;
  ++since_push_;
  const bool synchronises = info.synchronise || stops_after(parts_, metrics_, info);
  if (since_push_ == parts_.server().push_every || synchronises) {
    outcome = push_pull_step(info.step);
    count_staleness(parts_.traffic, outcome);
    outcome.stop = false;
  }
  if (synchronises) {
    outcome = meet(parts_, metrics_, steps_, own);
    pull_alike(parts_, steps_, servers_.span());
    parts_.traffic.bytes(Sent::sums) += metrics_.sent_bytes();
    ++parts_.traffic.synchronisations;
    apply_pulled();
    if (parts_.embeddings != nullptr) parts_.embeddings->pull_all_again();
  }
  outcome.skipped = own.skipped;
  outcome.unrecoverable = own.unrecoverable;
  return outcome;
}

/// The servers' values once all workers have pushed.
Model Geo::consensus() {
  return model_in(servers_);
}

StrategyState Geo::state() {
  parts_.watchdog.beat("meeting before a checkpoint", steps_);
  // No worker may push again before worker 0 has let the servers save their rows.
  if (parts_.embeddings != nullptr) parts_.workers.barrier(steps_);
  StrategyState state{.shared = live(),
                      .own = state_arrays(parts_.model, &optimizer_),
                      .numbers = {},
                      .optimizer_steps = optimizer_.steps()};
  const Model model = consensus();
  state.shared[0].values = model.parameters;
  state.shared[1].values = model.statistics;
  return state;
}

StrategyDescription Geo::description() const {
  StrategyDescription text = describe(parts_);
  text.held_bytes =
      static_cast<std::int64_t>((old_.size() + pushed_.size() + servers_.size()) * sizeof(float));
  return text;
}

}  // namespace

std::unique_ptr<Strategy> make_geo(const ServedWorker& worker, Optimizer& optimizer) {
  return std::make_unique<Geo>(worker, optimizer);
}

}  // namespace flotilla
