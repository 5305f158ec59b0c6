// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/commands/load.hpp"
#include "src/observe/files.hpp"
#include "src/observe/print.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

double median(std::vector<double> values) {
  require(!values.empty(), "a median needs values");
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// One operation of the step, timed alone. All take turns in short rounds, since the machine's speed drifts.
struct Operation {
  std::string name;
  std::function<void()> run;
  std::vector<double> times_s;
};

/// The operations of one step on its own buffers, in the state that the last step left.
std::vector<Operation> operations_of(Assembly& assembly, const Batch& batch) {
  Network& network = *assembly.network;
  const Targets targets{.labels = batch.labels,
                        .valid = batch.valid,
                        .other_labels = batch.partner_labels,
                        .other_share = batch.partner_share};
  const DeviceSpan<float> sums = assembly.validation_sums.span().subspan(0, loss_sums);
  std::vector<Operation> operations;
  for (const TimedOperation& operation : network.operations(targets, sums))
    operations.push_back({operation.name, operation.run, {}});
  operations.push_back({"optimizer",
                        [&assembly] {
                          assembly.optimizer->step(assembly.model.parameters, assembly.parameter_gradients(),
                                                   0.0, 1.0);
                        },
                        {}});
  return operations;
}

void time_alone(std::vector<Operation>& operations, std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (Operation& operation : operations) {
      const std::int64_t begin = trace::now_ns();
      operation.run();
      operation.times_s.push_back(static_cast<double>(trace::now_ns() - begin) * 1e-9);
    }
  }
}

}  // namespace

int bench_step(const BenchStepArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  const LoadedDeck deck = load_deck_everywhere(arguments.deck, arguments.overrides, world);
  const Config& config = deck.config;
  Assembly assembly(config, world, failure, {});
  Reporter reporter({.folder = "", .rank = world.rank()});
  const std::string folder = cat(config.run.output, "/bench-", arguments.steps);
  std::unique_ptr<CheckpointWriter> writer;
  agree(world, [&] {
    if (world.is_root() && arguments.checkpoint_every > 0)
      writer = std::make_unique<CheckpointWriter>(folder + "/checkpoints", 1);
  });
  Trainer trainer({.assembly = assembly,
                   .reporter = reporter,
                   .writer = writer.get(),
                   .failure = failure,
                   .loading = loader_options(config.data),
                   .build = ""},
                  {});
  assembly.strategy->start();
  const auto loader = trainer.make_loader();
  for (std::int64_t i = 0; i < std::max<std::int64_t>(10, arguments.steps / 10); ++i)
    end_job_on_failure(failure, [&] { return trainer.step(*loader); });
  std::vector<Operation> operations = operations_of(assembly, loader->next());

  // Steps and operations alone take turns in rounds: what the machine does meanwhile hits both.
  constexpr std::int64_t rounds = 20;
  std::vector<double> step_s;
  const PhaseTimes before = trainer.times();
  const StrategyTimes strategy_before = assembly.strategy->times();
  for (std::int64_t round = 0; round < rounds; ++round) {
    for (std::int64_t i = 0; i < std::max<std::int64_t>(1, arguments.steps / rounds); ++i) {
      const std::int64_t begin = trace::now_ns();
      end_job_on_failure(failure, [&] { return trainer.step(*loader); });
      if (arguments.checkpoint_every > 0 && trainer.times().steps % arguments.checkpoint_every == 0)
        trainer.save();
      step_s.push_back(static_cast<double>(trace::now_ns() - begin) * 1e-9);
    }
    world.barrier();
    time_alone(operations, std::max<std::int64_t>(1, arguments.steps / rounds));
    world.barrier();
  }
  if (writer) {
    writer->finish();
    std::filesystem::remove_all(folder);
  }

  const PhaseTimes& after = trainer.times();
  const StrategyTimes strategy = assembly.strategy->times();
  const auto steps = static_cast<double>(after.steps - before.steps);
  const auto mean_us = [&](std::int64_t ns) { return static_cast<double>(ns) * 1e-3 / steps; };
  double alone_s = 0.0;
  for (const Operation& operation : operations) alone_s += median(operation.times_s);
  const double step_median_s = median(step_s);
  nlohmann::ordered_json json{
      {"deck", arguments.deck},
      {"workers", world.size()},
      {"device", assembly.device->description()},
      {"global_batch_size", assembly.sharding.global_batch()},
      {"steps", after.steps - before.steps},
      {"step_us", step_median_s * 1e6},
      {"step_mean_us", mean_us(after.step_ns - before.step_ns)},
      {"samples_per_s", static_cast<double>(assembly.sharding.global_batch()) / step_median_s},
      {"input_us", mean_us(after.input_ns - before.input_ns)},
      {"forward_us", mean_us(after.forward_ns - before.forward_ns)},
      {"backward_us", mean_us(after.backward_ns - before.backward_ns)},
      {"exposed_comm_us", mean_us(strategy.exposed_comm_ns - strategy_before.exposed_comm_ns)},
      {"optimizer_us", mean_us(strategy.optimizer_ns - strategy_before.optimizer_ns)},
      {"checkpoint_stall_us", mean_us(after.stall_ns - before.stall_ns)},
      {"operations_alone_us", alone_s * 1e6},
      {"fraction", alone_s / step_median_s},
  };
  if (world.is_root()) {
    print_line(cat(assembly.device->description(), ", ", world.size(), " worker(s), global batch ",
                   assembly.sharding.global_batch(), ", all-reduce ", assembly.collectives->name()));
    print_line(fmt::format("{:<28}{:>10}{:>9}", "", "us", "of step"));
    const auto row = [&](const std::string& name, double us) {
      print_line(fmt::format("{:<28}{:>10.1f}{:>8.1f}%", name, us, us / (step_median_s * 1e6) * 100.0));
    };
    row("step, median", step_median_s * 1e6);
    for (const char* phase : {"step_mean_us", "input_us", "forward_us", "backward_us", "exposed_comm_us",
                              "optimizer_us", "checkpoint_stall_us"}) {
      std::string name = cat("  ", phase, " (mean)");
      name.erase(name.find("_us"), 3);
      std::replace(name.begin(), name.end(), '_', ' ');
      row(name, json[phase]);
    }
    print_line("operations alone, medians");
    for (const Operation& operation : operations) row("  " + operation.name, median(operation.times_s) * 1e6);
    row("  sum", alone_s * 1e6);
    print_line(fmt::format(
        "{:.0f} samples/s; the step takes {:.3f} of the time of its operations alone: fraction {:.3f}",
        json["samples_per_s"].get<double>(), step_median_s / alone_s, alone_s / step_median_s));
    if (!arguments.json.empty()) write_text_file_atomically(arguments.json, json.dump(2) + "\n");
  }
  world.barrier();
  return exit_done;
}

}  // namespace flotilla
