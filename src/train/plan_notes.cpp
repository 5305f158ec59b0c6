// SPDX-License-Identifier: Apache-2.0
#include "src/train/plan_notes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "src/config/deck.hpp"
#include "src/optim/schedule.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

namespace {

/// Rates with a smaller relative difference are equal up to rounding.
constexpr double smallest_jump = 1e-6;

/// "training ends after 3 epochs (train.epochs)"
std::string ending(const Config& config, const RunEnd& end) {
  return fmt::format("training ends after {:.4g} epoch{} ({})", end.epochs, end.epochs == 1.0 ? "" : "s",
                     config.train.epochs > 0 ? "train.epochs" : "train.steps");
}

void note_schedule(const Config& config, const RunEnd& end, std::vector<std::string>& notes) {
  const ScheduleConfig& schedule = config.schedule;
  std::string late;
  if (schedule.kind == ScheduleKind::piecewise)
    for (const double milestone : schedule.milestones)
      if (milestone >= end.epochs) late += fmt::format("{}{:g}", late.empty() ? "" : ", ", milestone);
  if (!late.empty())
    notes.push_back(
        fmt::format("schedule     never reached: schedule.milestones {}; {}", late, ending(config, end)));
  if (schedule.warmup_epochs > 0.0 && schedule.warmup_epochs >= end.epochs)
    notes.push_back(fmt::format("schedule     never over: schedule.warmup_epochs = {:g}; {}",
                                schedule.warmup_epochs, ending(config, end)));
}

void note_period(const LocalSgdConfig& local, const Sharding& sharding, const CheckpointState& begin,
                 std::int64_t last_step, std::vector<std::string>& notes) {
  const double begin_step =
      local.begin_epoch > 0.0
          ? std::ceil(local.begin_epoch * static_cast<double>(sharding.steps_per_epoch())) +
                static_cast<double>(begin.step - sharding.steps_before(begin.position))
          : static_cast<double>(local.begin_step);
  if (begin_step > 0.0 && begin_step >= static_cast<double>(last_step)) {
    notes.push_back(fmt::format("local steps  never begin (strategy.{}): the run ends with step {}",
                                local.begin_epoch > 0.0 ? "begin_epoch" : "begin_step", last_step));
  } else if (!local.adaptive && local.period > last_step) {
    notes.push_back(
        fmt::format("local steps  strategy.period = {} is longer than the run of {} steps: no models are "
                    "averaged meanwhile",
                    local.period, last_step));
  }
}

/// The sharding of the run that saved the checkpoint, whose batch was that of its steps in the mean.
Sharding sharding_of(const CheckpointState& checkpoint, const Sharding& now) {
  const std::int64_t batch = checkpoint.step > 0 ? checkpoint.samples / checkpoint.step : 0;
  if (batch == 0 || batch == now.global_batch()) return now;
  if (now.shares.empty()) return {.samples = now.samples, .batch = batch, .drop_last = now.drop_last};
  Sharding then = now;  // with the same shares
  then.batch = std::max<std::int64_t>(1, batch / (now.workers * now.micro_steps));
  return then;
}

}  // namespace

std::vector<std::string> plan_notes(const Config& config, const Sharding& sharding,
                                    const CheckpointState& begin) {
  std::vector<std::string> notes;
  const RunEnd end = end_of(config.train, sharding, begin.step, begin.position);
  note_schedule(config, end, notes);
  // With train.epochs a run that train.steps cuts short can go on.
  const std::int64_t last_step = config.train.epochs > 0
                                     ? begin.step + sharding.steps_until(begin.position, config.train.epochs)
                                     : end.step;
  if (const AllReduceConfig* const strategy = config.all_reduce();
      strategy != nullptr && strategy->compression != Compression::none &&
      strategy->compression_start >= last_step)
    notes.push_back(fmt::format(
        "compression  never begins (strategy.compression_start): the run ends with step {}", last_step));
  if (config.local_sgd() != nullptr) note_period(*config.local_sgd(), sharding, begin, last_step, notes);
  return notes;
}

std::string rate_jump(const Config& config, const Sharding& sharding, const CheckpointState& checkpoint) {
  const Config saved = read_saved_deck(checkpoint.deck);
  const auto end_by = [&](const Config& deck, const Sharding& batches) {
    return end_of(deck.train, batches, checkpoint.step, checkpoint.position);
  };
  const std::int64_t reductions = Plateau(config.schedule.plateau, true, checkpoint.numbers).reductions();
  const auto rate = [&](const ScheduleConfig& schedule, const RunEnd& end) {
    return Schedule(schedule, sharding.global_batch())
        .at(progress_at(sharding, checkpoint.position, end, reductions));
  };
  const RunEnd then = end_by(saved, sharding_of(checkpoint, sharding));
  const RunEnd now = end_by(config, sharding);
  const double before = rate(saved.schedule, then);
  const double after = rate(config.schedule, now);
  // The next step of a finished run does not matter.
  if (now.step == checkpoint.step || std::abs(after - before) <= smallest_jump * std::max(after, before))
    return {};
  return fmt::format(
      "the learning rate goes on at {:.6g}, where the checkpoint's deck has {:.6g}{}", after, before,
      rate(saved.schedule, now) == before
          ? std::string(", as run.resume_with allows")
          : fmt::format(
                ": schedule.kind = \"{}\" decays over the whole run, {:.4g} epochs now and {:.4g} then; "
                "to go on at another rate, give run.resume_with=schedule and another schedule",
                word(saved.schedule.kind), now.epochs, then.epochs));
}

std::vector<std::string> describe_layers(const std::vector<PlannedLayer>& layers) {
  std::size_t name = 8;
  std::size_t text = 32;
  std::int64_t parameters = 0;
  std::int64_t multiplications = 0;
  for (const PlannedLayer& each : layers) {
    name = std::max(name, each.name.size());
    text = std::max(text, each.text.size());
    parameters += each.parameters;
    multiplications += each.multiplications;
  }
  std::vector<std::string> lines;
  const auto add = [&](const std::string& layer, const std::string& as, const std::string& output,
                       const auto& numbers, const auto& products) {
    lines.push_back(
        fmt::format("{:<{}} {:<{}} {:>16} {:>12} {:>16}", layer, name, as, text, output, numbers, products));
  };
  add("layer", "text", "output", "parameters", "multiplications");
  for (const PlannedLayer& each : layers)
    add(each.name, each.text, each.output.text(), each.parameters, each.multiplications);
  add("all", "", "", parameters, multiplications);
  return lines;
}

}  // namespace flotilla
