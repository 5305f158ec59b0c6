// SPDX-License-Identifier: Apache-2.0
#include "src/commands/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "src/commands/start_report.hpp"
#include "src/commands/start_up.hpp"
#include "src/data/bag_buffer.hpp"
#include "src/data/sampler.hpp"
#include "src/files/run_lock.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/print.hpp"
#include "src/observe/progress_line.hpp"
#include "src/observe/reporter.hpp"
#include "src/observe/trace_file.hpp"
#include "src/optim/parameter_patterns.hpp"
#include "src/train/beginning.hpp"
#include "src/train/evaluation.hpp"
#include "src/train/model_kinds.hpp"
#include "src/train/plan_notes.hpp"
#include "src/train/resident_saves.hpp"
#include "src/train/resume.hpp"
#include "src/train/run_data.hpp"
#include "src/train/state_source.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

std::int64_t bytes_of(std::int64_t floats) {
  return floats * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t bytes_of(DeviceSpan<const float> span) {
  return bytes_of(static_cast<std::int64_t>(span.size()));
}

/// Code, HDF5's most of all, that the first save of a run brings into memory, and a check never runs.
/// Measured as RssFile: 30.8 MB in a training with saves, 28.2 MB in its check.
constexpr std::int64_t code_of_saves_bytes = 5 << 19;

constexpr int checked_steps = 2;  // The second one has what the first one leaves: rows looked up ahead, say

/// Host memory besides the device's allocations.
struct HostMemoryUse {
  std::int64_t process = 0;  ///< Use before anything was allocated
  std::int64_t input = 0;
  std::int64_t peak = 0;
  std::int64_t limit = 0;  ///< Limit of the control group, or the machine's memory
};

void print_memory(RunParts& run, const HostMemoryUse& host, std::span<const StateSource> sources) {
  const auto line = [](const char* what, std::int64_t bytes) {
    print_line(fmt::format("  {:<28}{:>12.1f} MiB", what, static_cast<double>(bytes) / (1024.0 * 1024.0)));
  };
  const ActivationMemory& memory = run.model.network->memory();
  std::int64_t slots = 0;
  if (run.model.optimizer)
    for (const OptimizerSlot& slot : run.model.optimizer->slots()) slots += bytes_of(slot.values);
  const std::int64_t parameters = bytes_of(run.model.weights.parameters);
  const std::int64_t statistics = bytes_of(run.model.weights.statistics);
  const std::int64_t gradients = bytes_of(run.model.gradients());
  const std::int64_t activations =
      bytes_of(memory.kept_values() + memory.shared_values() + memory.gradient_values());
  std::int64_t validation = 0;
  if (run.model.validation_network)
    validation = bytes_of(run.model.validation_network->memory().kept_values() +
                          run.model.validation_network->memory().shared_values());
  const std::int64_t strategy = run.sync.strategy->description().held_bytes;
  std::int64_t in_windows = 0;
  std::int64_t on_host = 0;  // for copies of what the host cannot reach
  for (const ReducedArray* array : {&run.model.models, &run.model.summed}) {
    in_windows += bytes_of(array->values()) - array->device_bytes();
    on_host += array->mirror_bytes();
  }
  for (const auto* room : {&run.sync.push_staging, &run.sync.pull_staging})
    if (*room) on_host += (*room)->bytes();
  const std::int64_t shard_sums = run.model.shard_sums ? run.model.shard_sums->bytes() : 0;
  const std::int64_t known = parameters + statistics + gradients + strategy - in_windows + slots +
                             activations + validation + shard_sums;

  print_line("memory per rank:");
  line("parameters", parameters);
  line("gradients", gradients);
  if (run.model.shard_sums) line("partial sums of shards", shard_sums);
  line("optimizer", slots);
  if (strategy > 0)
    line(run.config.train.average_decay > 0.0 ? "averaged weights" : "means and outer step", strategy);
  if (statistics > 0) line("statistics", statistics);
  line("activations, kept", bytes_of(memory.kept_values()));
  if (memory.shared_values() > 0) line("activations, shared", bytes_of(memory.shared_values()));
  line("gradients of activations", bytes_of(memory.gradient_values()));
  line("workspaces", run.machine.device->memory().allocated_bytes() - known);
  if (run.model.validation_network) line("validation's activations", validation);
  if (on_host > 0) line("copies in host memory", on_host);
  line("input", host.input);
  std::int64_t buffers = 0;
  for (const StateSource& source : sources) buffers += source.buffer_bytes();
  const bool copies = std::ranges::all_of(sources, &StateSource::copies);
  line(copies ? "checkpoint copy" : "checkpoint buffer, no copy", buffers);
  line("process and libraries", host.process + code_of_saves_bytes);
  line("peak, all together", host.peak + code_of_saves_bytes);
  line("limit, all ranks of a host", host.limit);
  if (memory.recomputes()) line("recomputation saves", bytes_of(memory.recomputation_saves()));
}

/// The cost of run.reproducible besides the partial sums.
std::string cost_of_shards(const RunParts& run) {
  const Sharding& sharding = run.data.sharding;
  return fmt::format(
      "reproducible: {} shards of {} samples, {} on each worker one after another; operations work on {} "
      "samples at a time instead of {}, and a gradient is added {} times on a worker",
      run.config.run.virtual_shards, sharding.batch, sharding.micro_steps, sharding.batch,
      sharding.batch * sharding.micro_steps, sharding.micro_steps - 1);
}

/// Collective. The sources from which worker 0 saves.
std::vector<StateSource> sources_of_saves(RunParts& run) {
  const StrategyState state = run.sync.strategy->state();
  std::vector<StateSource> sources;
  const auto add = [&](std::span<const StateArray> arrays) {
    sources.emplace_back(*run.model.network, arrays);
    sources.back().take(arrays);
  };
  add(state.shared);
  if (!state.own.empty()) add(state.own);
  if (run.config.checkpoint.per_rank) add(run.sync.strategy->live());
  return sources;
}

/// The trace sinks of a run, never written here; null if the deck asks for no trace.
std::unique_ptr<TraceFile> trace_buffers(const Config& config, int rank) {
  if (!config.run.files.trace) return nullptr;
  auto trace = std::make_unique<TraceFile>("", rank, 0);
  trace->thread("training");
  for (std::int64_t i = 0; i < communicators(config); ++i) trace->thread("communication");
  for (std::int64_t i = 0; i < config.data.threads; ++i) trace->thread("loader");
  return trace;
}

std::vector<std::string> layer_table(const RunParts& run) {
  const ModelConfig& model = run.config.model;
  const Dataset& data = *run.data.training;
  return describe_layers(
      plan_model(model, network_input(model, data.sample_shape(), data.slots()), Purpose::training));
}

/// Collective. Reads each sample of a data set once, each rank those of an even share.
/// @throws AgreedFailure with what cannot be read, of all ranks
void read_all(const Dataset& data, const std::string& key, const mpi::Communicator& world,
              mpi::Watchdog& watchdog) {
  MistakeList mistakes;
  const ValidationShard own = validation_shard(data.size(), world.size(), world.rank());
  std::vector<float> values(static_cast<std::size_t>(data.sample_shape().size()));
  std::vector<float> targets(static_cast<std::size_t>(data.target_width()));
  const std::unique_ptr<BagReader> bags = data.slots() > 0 ? data.bag_reader() : nullptr;
  BagBuffer ids(1, std::max<std::int64_t>(data.slots(), 1), data.weighted());
  ProgressLine progress(cat("reading ", key), own.end - own.begin, Amount::items);
  for (std::int64_t i = own.begin; i < own.end; ++i) {
    if (i % 1024 == 0) watchdog.beat("reading all samples", i);
    progress.at(i - own.begin);
    mistakes.attempt([&] {
      ids.clear();
      if (bags != nullptr) bags->read(i, values, ids);
      if (bags == nullptr) data.read(i, 0, values);
      if (!targets.empty()) data.read_targets(i, targets);
    });
  }
  world.patient_barrier();
  const MistakeList all = gathered_mistakes(mistakes, world);
  throw_alike([&] { all.throw_if_any(key); });
  if (world.is_root()) print_line(cat(key, ": all ", data.size(), " samples can be read"));
}

/// Collective. A run that writes into the folder now would keep train from it.
void refuse_used_folder(const Config& config, const mpi::Communicator& world) {
  agree(world, [&] {
    if (!world.is_root()) return;
    if (const std::optional<std::string> holder = lock_holder(config.run.output); holder && !holder->empty())
      throw UserError(in_use_by_another(config.run.output, *holder));
  });
}

}  // namespace

int check(const LoadedDeck& deck, const mpi::Communicator& world, ServerLink* servers,
          FailureHandler& failure, mpi::Watchdog& watchdog, bool reads_data) {
  Config config = deck.config;
  const std::int64_t process = resident_memory_bytes();
  const std::unique_ptr<TraceFile> trace = trace_buffers(config, world.rank());
  std::vector<std::string> notes = deck.notes;
  refuse_used_folder(config, world);
  const std::string in_memory = resident_state_line(config, world);
  const std::optional<LoadedCheckpoint> found = find_beginning(config, world, watchdog, notes);
  RunParts run(config, {world, servers, failure, watchdog},
               found ? found->state.choices : std::map<std::string, std::string>{});
  if (reads_data) {
    read_all(*run.data.training, "data.train", world, watchdog);
    if (run.data.validation) read_all(*run.data.validation, "data.validation", world, watchdog);
  }
  StartValues values = restore_or_load(found, run, notes);
  const CheckpointState begin_state = found ? found->state : CheckpointState();
  Reporter reporter({.folder = "", .rank = world.rank()});
  const LoaderOptions loading = loader_options(config.data);
  Trainer trainer(
      {.run = run, .reporter = reporter, .writers = {}, .failure = failure, .loading = loading, .build = ""},
      values.beginning);
  begin(run, found ? &*found : nullptr, values.continuation);
  const auto loader = trainer.make_loader();
  for (int i = 0; i < checked_steps; ++i) trainer.step(*loader);
  if (run.data.validation) {
    const ValidationShard one_batch{0, std::min(run.model.evaluator().batch(), run.data.validation->size())};
    apply({.network = run.model.evaluator(),
           .data = *run.data.validation,
           .options = loading,
           .sums = run.model.validation_sums.span().subspan(0, loss_sums),
           .inputs = evaluation_inputs(run.sync.embeddings.get(), checked_steps)},
          one_batch, [](const Batch&, std::int64_t) {});
  }
  const std::vector<StateSource> sources = sources_of_saves(run);
  std::array<std::int64_t, 1> peak{peak_memory_bytes()};
  world.all_reduce(std::span<std::int64_t>(peak), mpi::Op::max);
  if (world.is_root()) {
    if (!values.nothing_left.empty())
      print_line(nothing_left_line(found->path, values.nothing_left, values.continuation.differences));
    print_line(config.resolved_text);
    print_line(found ? resumed_line(*found)
                     : cat("output       ", config.run.output, ", without a checkpoint"));
    if (!in_memory.empty()) print_line(cat("memory       ", in_memory));
    for (const std::string& line : values.continuation.notes) print_line(line);
    for (const std::string& note : notes) print_line(note);
    if (found)
      if (const std::string jump = rate_jump(config, run.data.sharding, begin_state); !jump.empty())
        print_line(jump);
    if (!values.room.empty()) print_line(values.room);
    for (const Reduction* reduction : {&run.sync.averaging, &run.sync.reduction})
      if (!reduction->left_out.empty()) print_line(reduction->left_out);
    for (const std::string& warning : run.data.warnings) print_line("warning: " + warning);
    if (!values.loaded.summary.empty()) print_line(cat("weights      ", values.loaded.summary));
    for (const std::string& note : plan_notes(config, run.data.sharding, begin_state)) print_line(note);
    if (is_listed(config.model))
      for (const std::string& line : layer_table(run)) print_line(line);
    const Network& network = *run.model.network;
    for (const std::string& line : describe_patterns(config, network.layout(), network.statistics().layout()))
      print_line(line);
    print_memory(
        run,
        {.process = process, .input = loader->buffer_bytes(), .peak = peak[0], .limit = memory_limit().bytes},
        sources);
    print_line(fmt::format(
        "steps per epoch: {}, steps in all: {}, global batch: {}", run.data.sharding.steps_per_epoch(),
        end_of(config.train, run.data.sharding, begin_state.step, begin_state.position).step,
        run.data.sharding.global_batch()));
    if (run.model.shard_sums) print_line(cost_of_shards(run));
    if (servers != nullptr) {
      for (const std::string& line : mpi::lines_of(servers->roles().table())) print_line(line);
      for (const std::string& line : servers->placement_lines()) print_line(line);
      if (run.sync.embeddings && run.sync.embeddings->local() != nullptr)
        print_line(cat("rows: ", describe_local_rows(config, run.data.training->slots())));
    }
    print_line("the deck is good");
  }
  world.barrier();
  return exit_done;
}

}  // namespace flotilla
