// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/median.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/print.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/run_folder.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

/// One operation of the step, timed alone. All take turns in short rounds, since the machine's speed drifts.
struct Operation {
  TimedOperation what;
  std::vector<double> times_s;

  double median_s() const { return median(times_s); }
};

/// A few batches in turn, again and again, in the memory that the loader read them into: reading belongs to
/// `bench input`, and would take a processor from the step. Several, because the ids of click data decide
/// which rows a step touches, and one batch alone would stay in the processor's cache.
class ResidentBatches final : public Loader {
 public:
  /// @param count LoaderOptions::kept of `loader`
  ResidentBatches(std::unique_ptr<Loader> loader, std::int64_t count) : loader_(std::move(loader)) {
    for (std::int64_t i = 0; i < count; ++i) batches_.push_back(loader_->next());
  }

  const Batch& next() override { return batches_[next_++ % batches_.size()]; }
  std::int64_t wait_ns() const override { return loader_->wait_ns(); }
  std::int64_t read_ns() const override { return loader_->read_ns(); }
  std::int64_t buffer_bytes() const override { return loader_->buffer_bytes(); }

 private:
  std::unique_ptr<Loader> loader_;
  std::vector<Batch> batches_;
  std::size_t next_ = 0;
};

/// As many batches as scripts/compare_torch_speed.py takes: at most 32, in at most 256 MB.
std::int64_t resident_batches(const RunData& data) {
  constexpr std::int64_t most = 32;
  constexpr std::int64_t max_bytes = std::int64_t{256} << 20;
  const std::int64_t values = data.training->sample_shape().size() + data.training->slots();
  const std::int64_t batch_bytes = data.sharding.batch * values * std::int64_t{sizeof(float)};
  return std::clamp<std::int64_t>(max_bytes / std::max<std::int64_t>(batch_bytes, 1), 1, most);
}

/// Appends the times of `count` steps: of each; or, where calls return before their work is done, of the
/// steps of a round, from a device at rest to a device at rest.
template <class Step>
void time_steps(Device& device, std::int64_t count, const Step& step, std::vector<double>& step_s) {
  const bool whole = device.info().runs_ahead;
  device.queue().synchronize();
  const std::int64_t begin = trace::now_ns();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t step_begin = trace::now_ns();
    step();
    if (!whole) step_s.push_back(seconds(trace::now_ns() - step_begin));
  }
  if (!whole) return;
  device.queue().synchronize();
  step_s.push_back(seconds(trace::now_ns() - begin) / static_cast<double>(count));
}

/// The phases of a step that are reported one by one.
constexpr std::array<const char*, 5> step_phase_names = {"input", "forward", "backward", "exposed_comm",
                                                         "optimizer"};

/// Seconds of each phase since the start of training.
std::array<double, step_phase_names.size()> phase_totals(const PhaseTimes& times) {
  return {seconds(times.input_ns), seconds(times.forward_ns), seconds(times.backward_ns),
          seconds(times.exposed_comm_ns()), seconds(times.optimizer_ns)};
}

/// Seconds between the two in which this worker did not wait for others.
double busy_s(const PhaseTimes& before, const PhaseTimes& after) {
  return seconds((after.step_ns - after.exposed_comm_ns()) - (before.step_ns - before.exposed_comm_ns()));
}

/// Collective. The worker that is busy longest. Root knows it, others may not.
std::size_t slowest_rank(const mpi::Communicator& world, double busy_s) {
  const std::vector<double> all = world.gather(std::span<const double>(&busy_s, 1));
  return static_cast<std::size_t>(std::ranges::max_element(all) - all.begin());
}

/// The operations of one step on its own buffers, in the state that the last step left. The optimizer takes
/// gradients of zero: those of a step that overflowed are not finite, and would make the parameters so.
std::vector<Operation> operations_of(RunParts& run, const Targets& targets) {
  Network& network = *run.model.network;
  const DeviceSpan<float> sums = run.model.validation_sums.span().subspan(0, loss_sums);
  std::vector<Operation> operations;
  for (TimedOperation& operation : network.operations(targets, sums))
    operations.push_back({std::move(operation), {}});
  if (run.machine.servers != nullptr) return operations;  // the optimizer is theirs
  const auto gradients =
      std::make_shared<Storage>(run.machine.device->memory().allocate(run.model.weights.parameters.size()));
  operations.push_back({{"optimizer", "optimizer", 0.0,
                         [&run, gradients] {
                           const Model& weights = run.model.weights;
                           HalfParameters* const halves = run.model.updated_halves();
                           run.model.optimizer->step(
                               weights.parameters, gradients->span(), 0.0,
                               1.0 / double{run.model.loss_scale.scale()},
                               halves == nullptr ? HalfCopy{} : halves->target(weights.parameters));
                         }},
                        {}});
  return operations;
}

void time_alone(Device& device, std::vector<Operation>& operations, std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Operation& operation : operations) {
      const std::int64_t begin = trace::now_ns();
      operation.what.run();
      device.queue().synchronize();
      operation.times_s.push_back(seconds(trace::now_ns() - begin));
    }
  }
}

/// Operations taken together.
struct OperationKind {
  std::string name;
  int count = 0;
  double seconds = 0.0;  ///< Sum of medians
  double flop = 0.0;
};

/// The kinds of operations of a step, in the order of their first operations. @param micro_steps each does
/// all operations but the optimizer's
std::vector<OperationKind> kinds_of(const std::vector<Operation>& operations, std::int64_t micro_steps) {
  std::vector<OperationKind> kinds;
  for (const Operation& operation : operations) {
    auto kind = std::ranges::find(kinds, operation.what.kind, &OperationKind::name);
    if (kind == kinds.end()) kind = kinds.insert(kind, OperationKind{.name = operation.what.kind});
    const auto times = operation.what.kind == "optimizer" ? 1 : static_cast<int>(micro_steps);
    kind->count += times;
    kind->seconds += times * operation.median_s();
    kind->flop += times * operation.what.flop;
  }
  return kinds;
}

/// Prints rows of one shape: name, count, milliseconds, GFLOP/s, share of the step.
class StepTable {
 public:
  explicit StepTable(double step_s) : step_s_(step_s) {
    print_line(fmt::format("{:<40}{:>6}{:>11}{:>10}{:>9}", "", "count", "ms", "GFLOP/s", "of step"));
  }
  void row(const std::string& name, double seconds, int count = 0, double flop = 0.0) const {
    print_line(fmt::format("{:<40}{:>6}{:>11.3f}{:>10}{:>8.1f}%", name,
                           count > 0 ? std::to_string(count) : std::string(), seconds * 1e3,
                           flop > 0.0 ? fmt::format("{:.1f}", flop / seconds * 1e-9) : std::string(),
                           seconds / step_s_ * 100.0));
  }

 private:
  double step_s_;
};

int bench_worker(const BenchStepArguments& arguments, Config config, const mpi::Communicator& world,
                 ServerLink* servers, FailureHandler& failure, mpi::Watchdog& watchdog) {
  RunParts run(config, {world, servers, failure, watchdog}, {});
  Reporter reporter({.folder = "", .rank = world.rank()});
  const std::string folder = cat(config.run.output, "/bench-", arguments.steps);
  std::unique_ptr<CheckpointWriter> writer;
  const SavingWorkers saving = saving_workers(world, run.machine.own_place());
  agree(world, [&] {
    if (arguments.checkpoint_every > 0)
      writer = std::make_unique<CheckpointWriter>(folder + "/checkpoints", 1, saving);
  });
  LoaderOptions loading = loader_options(config.data);
  loading.threads = 0;
  loading.kept = resident_batches(run.data);
  Trainer trainer({.run = run,
                   .reporter = reporter,
                   .writers = {.shared = writer.get()},
                   .failure = failure,
                   .loading = loading,
                   .build = ""},
                  {});
  run.sync.strategy->start();
  const bool ahead = run.machine.device->info().runs_ahead;
  const auto step_on = [&](Loader& loader) {
    return end_job_on_failure(failure, [&] { return trainer.step(loader); });
  };
  // The first steps take the training samples in their order: the same global batch gives the same loss on
  // any number of ranks, to rounding. It is that of step 3, after two updates: later ones amplify rounding.
  StepOutcome last;
  std::unique_ptr<Loader> loader = end_job_on_failure(failure, [&] { return trainer.make_loader(); });
  constexpr std::int64_t compared_step = 3;
  double compared_loss = 0.0;
  for (std::int64_t step = 1; step <= std::max(compared_step, arguments.steps / 10); ++step) {
    last = step_on(*loader);
    if (step == compared_step) compared_loss = last.loss;
  }
  run.machine.device->queue().synchronize();  // it may still copy the last batch
  loader.reset();
  loader = end_job_on_failure(
      failure, [&] { return std::make_unique<ResidentBatches>(trainer.make_loader(), loading.kept); });
  std::vector<Operation> operations = operations_of(run, loader->next().targets());

  // Steps and operations alone take turns in rounds: what the machine does meanwhile hits both.
  // On a device that runs ahead a round is long: it shows the upload of its first batch, which later steps
  // hide.
  constexpr std::int64_t max_rounds = 20;
  constexpr std::int64_t steps_ahead = 20;
  const std::int64_t rounds =
      ahead ? std::clamp<std::int64_t>(arguments.steps / steps_ahead, 1, max_rounds) : max_rounds;
  const std::int64_t steps_of_round = std::max<std::int64_t>(1, arguments.steps / rounds);
  std::vector<double> step_s;
  std::array<std::vector<double>, step_phase_names.size()> phase_s;
  std::vector<double> own_s;  // of each step, without waiting for input or for others
  const PhaseTimes before = trainer.times();
  auto phases_before = phase_totals(before);
  for (std::int64_t round = 0; round < rounds; ++round) {
    const auto step = [&] {
      const PhaseTimes begun = trainer.times();
      last = step_on(*loader);
      own_s.push_back(busy_s(begun, trainer.times()) - seconds(trainer.times().input_ns - begun.input_ns));
      if (arguments.checkpoint_every > 0 && trainer.times().steps % arguments.checkpoint_every == 0) {
        run.sync.strategy->consensus();  // ends what is under way to servers
        trainer.save();
      }
      const auto phases = phase_totals(trainer.times());
      for (std::size_t i = 0; i < phases.size(); ++i) phase_s[i].push_back(phases[i] - phases_before[i]);
      phases_before = phases;
    };
    time_steps(*run.machine.device, steps_of_round, step, step_s);
    world.barrier();
    time_alone(*run.machine.device, operations, steps_of_round);
    world.barrier();
  }
  if (writer) {
    writer->finish();
    world.barrier();
    std::error_code ignored;
    if (world.is_root()) std::filesystem::remove_all(folder, ignored);
  }

  const PhaseTimes& after = trainer.times();
  const auto steps = static_cast<double>(after.steps - before.steps);
  const double step_mean_s = seconds(after.step_ns - before.step_ns) / steps;
  const double stall_mean_s = seconds(after.stall_ns - before.stall_ns) / steps;
  const double step_median_s = median(step_s);
  const std::size_t slowest = slowest_rank(world, busy_s(before, after) / steps);
  // The phases and the rest add up to the median step. The checkpoint stall is no part of it, and a mean: few
  // steps wait for one, so its median would be 0.
  std::vector<std::pair<std::string, double>> phases;
  for (std::size_t i = 0; i < step_phase_names.size(); ++i)
    phases.emplace_back(step_phase_names[i], median(phase_s[i]));
  const double waits_s = phases[0].second + phases[3].second;
  double rest_s = step_median_s;
  for (const auto& phase : phases) rest_s -= phase.second;
  phases.emplace_back("rest", rest_s);
  phases.emplace_back("checkpoint_stall", stall_mean_s);
  const std::vector<OperationKind> kinds = kinds_of(operations, config.train.accumulate_steps);
  double alone_s = 0.0;
  int count = 0;
  for (const OperationKind& kind : kinds) {
    alone_s += kind.seconds;
    count += kind.count;
  }
  const double samples_per_s = static_cast<double>(run.data.sharding.global_batch()) / step_median_s;
  const std::string why_invalid = !std::isfinite(last.loss)            ? "the loss is not finite"
                                  : run.model.loss_scale.skipped() > 0 ? "steps overflowed"
                                                                       : "";
  const mpi::Place& slowest_place = run.machine.places[slowest];
  if (ahead) {  // the host's times say nothing: those of rounds, less what a step waits
    own_s = step_s;
    for (double& each : own_s) each -= std::min(each, waits_s);
  }
  const std::vector<double> all_own_s = world.gather(std::span<const double>(own_s));
  std::array<double, 1> memory{static_cast<double>(peak_memory_bytes())};
  world.all_reduce(std::span<double>(memory), mpi::Op::max);
  nlohmann::ordered_json json{{"deck", arguments.deck},
                              {"workers", world.size()},
                              {"hosts", mpi::hosts(run.machine.places)},
                              {"device", run.machine.device->info().description},
                              {"global_batch_size", run.data.sharding.global_batch()},
                              {"steps", after.steps - before.steps},
                              {"step_us", step_median_s * 1e6},
                              {"samples_per_s", samples_per_s},
                              {"operations_alone_us", alone_s * 1e6},
                              {"fraction", alone_s / step_median_s}};
  if (run.model.loss_scale.enabled()) json["skipped_steps"] = run.model.loss_scale.skipped();
  json["loss_of_step_3"] = compared_loss;
  json["valid"] = why_invalid.empty();
  json["slowest_rank"] = slowest_place.rank;
  json["slowest_host"] = slowest_place.host;
  json["step_mean_us"] = step_mean_s * 1e6;
  for (const auto& [phase, time_s] : phases) json[cat(phase, "_us")] = time_s * 1e6;
  // What flotilla forecast needs.
  json["cores"] = run.machine.own_place().host_cores;
  json["threads"] = run.machine.device->info().threads;
  json["samples"] = run.data.sharding.samples;
  json["memory_bytes"] = memory[0];
  json["saves"] =
      arguments.checkpoint_every > 0 ? (after.steps - before.steps) / arguments.checkpoint_every : 0;
  json["leading_floats"] = leading_floats(run.model.weights);
  for (const Slice& tensor : run.model.network->layout().slices()) json["tensors"].push_back(tensor.size);
  for (std::size_t i = 0; i < all_own_s.size(); ++i)
    json["own_us"][i / own_s.size()].push_back(all_own_s[i] * 1e6);
  for (const OperationKind& kind : kinds)
    json["kinds"].push_back({{"kind", kind.name},
                             {"count", kind.count},
                             {"us", kind.seconds * 1e6},
                             {"gflop_s", kind.flop / kind.seconds * 1e-9},
                             {"share", kind.seconds / step_median_s}});
  for (const Operation& operation : operations)
    json["operations"].push_back({{"name", operation.what.name},
                                  {"kind", operation.what.kind},
                                  {"us", operation.median_s() * 1e6},
                                  {"gflop_s", operation.what.flop / operation.median_s() * 1e-9}});
  if (world.is_root()) {
    print_line(cat(run.machine.device->info().description, ", ", mpi::counted(world.size(), "worker"),
                   ", global batch ", run.data.sharding.global_batch(),
                   servers == nullptr ? ", all-reduce " : ", parameter-server ",
                   servers == nullptr ? run.sync.reduction.description : word(config.server()->mode)));
    const StepTable table(step_median_s);
    print_line("operations alone, sums of medians");
    for (const OperationKind& kind : kinds) table.row("  " + kind.name, kind.seconds, kind.count, kind.flop);
    table.row("  all of them", alone_s, count);
    table.row("  step less these and its waits", step_median_s - alone_s - waits_s);
    if (arguments.operations) {
      print_line("each operation alone, median");
      for (const Operation& operation : operations)
        table.row("  " + operation.what.name, operation.median_s(), 0, operation.what.flop);
    }
    table.row(ahead ? "step, median of rounds" : "step, median", step_median_s);
    if (ahead) print_line("  of which by the host, which runs ahead of the device");
    for (const auto& [phase, time_s] : phases) {
      std::string name = cat("  ", phase, phase == "checkpoint_stall" ? " (mean)" : "");
      std::ranges::replace(name, '_', ' ');
      table.row(name, time_s);
    }
    table.row("step, mean", step_mean_s);
    print_line(fmt::format(
        "{:.{}f} samples/s; the step takes {:.3f} of the time of its operations alone: fraction {:.3f}",
        samples_per_s, samples_per_s < 100.0 ? 2 : 0, step_median_s / alone_s, alone_s / step_median_s));
    if (world.size() > 1) print_line(cat("slowest: rank ", slowest_place.rank, " on ", slowest_place.host));
    print_figures({{"samples_per_s", samples_per_s},
                   {"step_ms", step_median_s * 1e3},
                   {"exposed_ms", phases[3].second * 1e3},
                   {"efficiency", alone_s / step_median_s}},
                  why_invalid);
    hand_over(json.dump(2), arguments.json, arguments.text);
  }
  world.barrier();
  return exit_done;
}

}  // namespace

int bench_step(const BenchStepArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  const LoadedDeck deck = load_deck_everywhere(arguments.deck, arguments.overrides, world);
  agree(world, [&] {
    if (world.is_root())
      check_outputs({arguments.json}, deck.config, deck.config.data.train, {arguments.deck});
  });
  JobWatchdog job(deck, world, failure);
  JobRoles roles(deck.config, world, failure, job.watchdog());
  if (roles.is_server()) return roles.serve();
  return bench_worker(arguments, deck.config, roles.workers(), roles.servers(), failure, job.watchdog());
}

Subcommand bench_step_command() {
  return SubcommandOf<BenchStepArguments>{
      .name = "bench step",
      .help = "A training step and its phases",
      .add_options =
          [](CLI::App& command, BenchStepArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "DECK", "TOML file of the run", true);
            positionals.add_overrides(command);
            command
                .add_option("--checkpoint-every", arguments.checkpoint_every,
                            "Save every so many steps (0: never)")
                ->check(CLI::NonNegativeNumber);
            command.add_option("--steps", arguments.steps, "Steps measured (200)")
                ->check(CLI::Range(1, 1000000000));
            command.add_flag("--operations", arguments.operations,
                             "List every operation, not only their kinds");
            command.add_option("--json", arguments.json, "File for the figures as JSON");
          },
      .take_positionals =
          [](BenchStepArguments& arguments, Positionals& positionals) {
            arguments.deck = positionals.take_deck(true);
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = bench_step,
  };
}

}  // namespace flotilla
