// SPDX-License-Identifier: Apache-2.0
#include "src/commands/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "kernels/error.hpp"
#include "src/commands/load.hpp"
#include "src/observe/print.hpp"
#include "src/observe/reporter.hpp"
#include "src/observe/trace_file.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/model_state.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

void print_memory(const Assembly& assembly, std::int64_t process, std::int64_t input, std::int64_t snapshot,
                  std::int64_t peak) {
  const auto line = [](const char* what, std::int64_t bytes) {
    print_line(fmt::format("  {:<24}{:>12.1f} MiB", what, static_cast<double>(bytes) / (1024.0 * 1024.0)));
  };
  const auto floats = [](std::int64_t count) { return count * static_cast<std::int64_t>(sizeof(float)); };
  std::int64_t slots = 0;
  for (const OptimizerSlot& slot : assembly.optimizer->slots())
    slots += static_cast<std::int64_t>(slot.values.size());
  print_line("memory per rank:");
  line("process and libraries", process);
  line("parameters", floats(static_cast<std::int64_t>(assembly.model.parameters.size())));
  line("gradients", floats(static_cast<std::int64_t>(assembly.gradients.size())));
  line("optimizer", floats(slots));
  line("activations", floats(assembly.network->memory().kept_values()));
  line("input", input);
  line("checkpoint copy", snapshot);
  line("peak, all together", peak);
}

/// Those that a run takes, which is never written; null if the deck asks for no trace.
std::unique_ptr<TraceFile> trace_buffers(const Config& config, int rank) {
  if (!config.run.trace) return nullptr;
  auto trace = std::make_unique<TraceFile>("", rank, 0);
  for (const char* thread : {"training", "communication"}) trace->thread(thread);
  for (std::int64_t i = 0; i < config.data.threads; ++i) trace->thread("loader");
  return trace;
}

}  // namespace

int check(const LoadedDeck& deck, const mpi::Communicator& world, FailureHandler& failure) {
  const Config& config = deck.config;
  const std::int64_t process = resident_memory_bytes();
  const std::unique_ptr<TraceFile> trace = trace_buffers(config, world.rank());
  Assembly assembly(config, world, failure, {});
  std::vector<std::string> notes = deck.notes;
  const std::vector<std::string> loaded = load_initial_weights(assembly, notes);
  Reporter reporter({.folder = "", .rank = world.rank()});
  const LoaderOptions loading = loader_options(config.data);
  Trainer trainer({.assembly = assembly,
                   .reporter = reporter,
                   .writer = nullptr,
                   .failure = failure,
                   .loading = loading,
                   .build = ""},
                  {});
  assembly.strategy->start();
  const auto loader = trainer.make_loader();
  for (int i = 0; i < 2; ++i) trainer.step(*loader);
  if (assembly.validation_data) {
    const ValidationShard one_batch{0,
                                    std::min(assembly.evaluator().batch(), assembly.validation_data->size())};
    const auto validation =
        make_validation_loader(*assembly.validation_data, one_batch, assembly.evaluator().batch(), loading);
    const Batch& batch = validation->next();
    assembly.evaluator().forward(batch.images, {.labels = batch.labels, .valid = batch.valid},
                                 Pass::inference, assembly.validation_sums.span().subspan(0, loss_sums));
  }
  Snapshot snapshot;
  if (world.is_root()) {
    copy_state(*assembly.network, assembly.model, *assembly.optimizer, snapshot);
    make_plain(*assembly.network, snapshot);
  }
  std::array<std::int64_t, 1> peak{peak_memory_bytes()};
  world.all_reduce(std::span<std::int64_t>(peak), mpi::Op::max);
  if (world.is_root()) {
    print_line(config.resolved_text);
    for (const std::string& note : notes) print_line(note);
    for (const std::string& line : loaded) print_line(line);
    print_memory(assembly, process, loader->buffer_bytes(),
                 static_cast<std::int64_t>(snapshot.values.size() * sizeof(float)), peak[0]);
    print_line(fmt::format("steps per epoch: {}, steps in all: {}, global batch: {}",
                           assembly.sharding.steps_per_epoch(),
                           planned_steps(config.train, assembly.sharding), assembly.sharding.global_batch()));
    print_line("the deck is good");
  }
  world.barrier();
  return exit_done;
}

}  // namespace flotilla
