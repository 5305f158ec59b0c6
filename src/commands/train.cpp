// SPDX-License-Identifier: Apache-2.0
#include "src/commands/train.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/clock.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/commands/check.hpp"
#include "src/commands/load.hpp"
#include "src/commands/start_up.hpp"
#include "src/commands/version.hpp"
#include "src/commands/with_servers.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/folders.hpp"
#include "src/files/run_lock.hpp"
#include "src/job/time_limit.hpp"
#include "src/observe/print.hpp"
#include "src/observe/trace_file.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/saving_workers.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

/// The processes of a run that was killed may live a little longer than its launcher.
constexpr double patience_with_lock_s = 5.0;

std::string rank_file(const std::string& folder, int rank, const char* ending) {
  std::string number = std::to_string(rank);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return cat(folder, "/rank-", number, ending);
}

/// The trace of this rank, where the deck asks for one; else null sinks.
class Tracing {
 public:
  Tracing(const Config& config, const mpi::Communicator& world) : loading_(loader_options(config.data)) {
    if (!config.run.trace) return;
    file_ = std::make_unique<TraceFile>(rank_file(config.run.output + "/trace", world.rank(), ".json"),
                                        world.rank(), mpi::clock_offset_ns(world));
    trace::record_this_thread(file_->thread("training"));
    std::vector<trace::Sink*> sinks;
    for (std::int64_t i = 0; i < config.data.threads; ++i) sinks.push_back(file_->thread(cat("loader ", i)));
    loading_.sink = [sinks](int thread) { return sinks[static_cast<std::size_t>(thread)]; };
  }
  Tracing(const Tracing&) = delete;
  Tracing& operator=(const Tracing&) = delete;
  ~Tracing() { trace::record_this_thread(nullptr); }

  /// One per communicator; empty without a trace.
  std::vector<trace::Sink*> communication(std::int64_t communicators) {
    std::vector<trace::Sink*> sinks;
    for (std::int64_t i = 0; file_ && i < communicators; ++i)
      sinks.push_back(file_->thread(communicators == 1 ? "communication" : cat("communication ", i)));
    return sinks;
  }
  const LoaderOptions& loading() const { return loading_; }
  void write() {
    trace::record_this_thread(nullptr);
    if (file_) file_->write();
  }

 private:
  std::unique_ptr<TraceFile> file_;
  LoaderOptions loading_;
};

/// Who is what, and which server holds how much.
void introduce_servers(const RunParts& run, Reporter& reporter) {
  const ServerConfig& server = run.config.server;
  std::string mode = server.mode;
  if (mode == "half-async" || mode == "geo") mode += cat(", a push every ", server.push_every, " steps");
  if (mode != "sync" && server.max_staleness > 0)
    mode += cat(", at most ", server.max_staleness, " pushes ahead");
  reporter.say(cat("strategy     parameter-server, ", mode));
  for (const std::string& line : mpi::lines_of(run.machine.servers->roles().table()))
    reporter.say(cat("  ", line));
  for (const std::string& line : run.machine.servers->placement_lines()) reporter.say(cat("  ", line));
  if (run.sync.embeddings && run.sync.embeddings->local() != nullptr)
    reporter.say(cat("  rows: ", describe_local_rows(run.config, run.data.training->slots())));
  const std::string& kind = run.config.roles.kind;
  const std::size_t apart = mpi::pairs_apart(run.machine.servers->roles().table()).size();
  if ((kind.empty() || kind == "symmetric") && apart > 0)
    reporter.say(cat("  ", apart,
                     " of the pairs of a server and a worker lie on two hosts: ranks that are "
                     "numbered host by host (mpirun --map-by core) keep them together"));
}

/// As roles.txt in the run's folder.
void write_roles(const std::string& folder, const mpi::RoleTable& table) {
  std::string text;
  for (const std::string& line : mpi::lines_of(table)) text += line + "\n";
  write_text_file_atomically(folder + "/roles.txt", text);
}

/// What carries the workers' values to each other, for the start report.
std::string exchange_of(const RunParts& run) {
  if (run.machine.servers != nullptr) return "parameter-server";
  const bool sums = run.config.strategy.kind == "all-reduce";
  return std::string((sums ? run.sync.reduction : run.sync.averaging).first().name());
}

/// Of worker 0, whose clock decides and which alone asks Slurm.
TimeLimit find_time_limit(const RunConfig& config, const mpi::Communicator& world, Reporter& reporter) {
  if (!world.is_root()) return {};
  const SlurmTime slurm = slurm_time();
  const TimeLimit limit(config, slurm, process_age_s(), trace::now_ns());
  if (!limit.text().empty()) reporter.say(cat("time limit   ", limit.text()));
  if (!slurm.unknown.empty())
    reporter.warn(cat("the time limit of Slurm's job ", slurm.job, " is not known (", slurm.unknown,
                      "): sbatch --signal=USR1@60 makes Slurm ask for the checkpoint, run.time_limit_s "
                      "stops the run by itself"));
  return limit;
}

/// "period 8, from step 500 on".
std::string describe_period(const StrategyConfig& strategy) {
  std::string text = strategy.kind == "local-sgd"
                         ? cat("period ", strategy.period)
                         : cat("rule \"", strategy.rule, "\", first period ", strategy.initial_period);
  if (strategy.kind == "local-sgd" && strategy.warm_up != "none")
    text += cat(" after a ", strategy.warm_up, " warm-up");
  if (strategy.begin_step > 0) text += cat(", from step ", strategy.begin_step, " on");
  if (strategy.begin_epoch > 0.0) text += cat(", from epoch ", strategy.begin_epoch, " on");
  if (strategy.group_all_reduce) text += ", gradients reduced inside groups in every step";
  if (strategy.outer.kind != "none") text += cat(", outer step \"", strategy.outer.kind, "\"");
  return text;
}

constexpr std::size_t most_rows_shown = 16;

/// Which rank computes on which GPU; for many ranks in the log only.
void introduce_gpus(const RunParts& run, Reporter& reporter) {
  const mpi::GpuBinding& gpus = run.machine.gpus;
  if (gpus.ranks.empty()) return;
  reporter.say(cat("gpus         ", mpi::describe_gpus(gpus)));
  for (const std::string& line : mpi::gpu_table(run.machine.places, gpus)) {
    if (gpus.ranks.size() <= most_rows_shown) {
      reporter.say(line);
    } else if (run.machine.workers.is_root()) {
      reporter.log(line);
    }
  }
}

/// On what the run goes.
void introduce_hosts(const StartUp& start, const RunParts& run, Reporter& reporter) {
  const std::vector<std::string> lines = mpi::describe_hosts(start.places);
  reporter.say(cat("ranks        ", lines.front()));
  for (std::size_t line = 1; line < lines.size(); ++line) reporter.say(lines[line]);
  reporter.log(describe(run.machine.places[static_cast<std::size_t>(run.machine.workers.rank())]));
  if (start.network) reporter.say(cat("network      ", describe(*start.network)));
  reporter.say(cat("device       ", run.machine.device->description()));
  introduce_gpus(run, reporter);
}

void introduce(const std::string& deck, const StartUp& start, RunParts& run,
               const std::optional<LoadedCheckpoint>& resumed, Reporter& reporter) {
  const Config& config = run.config;
  reporter.say(version_line());
  reporter.say(cat("deck         ", deck));
  reporter.say(cat("output       ", config.run.output));
  introduce_hosts(start, run, reporter);
  if (run.model.loss_scale.enabled()) reporter.say(cat("loss scale   ", run.model.loss_scale.text()));
  reporter.say(cat("training     ", run.data.training->description()));
  if (run.data.validation) reporter.say(cat("validation   ", run.data.validation->description()));
  reporter.say(
      cat("model        ", config.model.kind, ", ", run.model.network->layout().values(), " parameters"));
  if (const ActivationMemory& memory = run.model.network->memory(); memory.recomputes())
    reporter.say(
        fmt::format("recompute    saves {:.1f} MiB of activations per rank",
                    static_cast<double>(memory.recomputation_saves()) * sizeof(float) / (1024.0 * 1024.0)));
  reporter.say(
      cat("batch        ", run.data.sharding.global_batch(), " = ", run.data.sharding.workers, " workers × ",
          run.data.sharding.batch,
          run.data.sharding.micro_steps > 1 ? cat(" × ", run.data.sharding.micro_steps, " micro-steps") : "",
          ", ", run.data.sharding.steps_per_epoch(), " steps per epoch"));
  if (run.machine.servers != nullptr) {
    introduce_servers(run, reporter);
  } else if (config.strategy.kind != "all-reduce") {
    reporter.say(cat("strategy     ", config.strategy.kind, ", ", describe_period(config.strategy)));
    reporter.say(cat("averaging    ", run.sync.averaging.description, " of parameters",
                     config.strategy.statistics == "average" && !run.model.weights.statistics.empty()
                         ? " and statistics"
                         : ""));
    for (const std::string& line : run.sync.averaging.table) reporter.say(cat("  measured   ", line));
  }
  // Workers that always step alone reduce nothing.
  if (config.strategy.kind == "all-reduce" ||
      (run.machine.servers == nullptr && run.sync.reduction.first().ranks() > 1))
    reporter.say(cat("all-reduce   ", run.sync.reduction.description, ", ", describe(run.sync.buckets),
                     run.sync.reduction.first().queues()   ? ", queued on the device"
                     : !run.sync.communication             ? ", in the training thread"
                     : run.sync.communication->size() == 1 ? ", on a thread of its own"
                                                           : ", on threads of their own"));
  for (const std::string& line : run.sync.reduction.table) reporter.say(cat("  measured   ", line));
  if (const std::string straggler = run.machine.straggler->description(); !straggler.empty())
    reporter.say(cat("straggler    emulated: ", straggler));
  if (resumed)
    reporter.say(cat("resumed      from ", resumed->path, ", step ", resumed->state.step, ", epoch ",
                     resumed->state.position.epoch));
}

void add_network(const mpi::NetworkReport& network, const std::vector<mpi::Place>& places,
                 StartReport& report) {
  const mpi::LinkFigures& slowest = network.verdict.slowest;
  const std::vector<std::string> names = mpi::names_of_hosts(places);
  report.network_gb_s = network.verdict.median_bytes_per_s * 1e-9;
  report.network_latency_us = network.verdict.median_latency_us;
  report.slowest_link_gb_s = slowest.bytes_per_s * 1e-9;
  report.slowest_link =
      cat(names[static_cast<std::size_t>(slowest.a)], " ", names[static_cast<std::size_t>(slowest.b)]);
}

int train_worker(const TrainArguments& arguments, const LoadedDeck& deck, const StartUp& start,
                 const mpi::Communicator& world, ServerLink* servers, FailureHandler& failure,
                 mpi::Watchdog& watchdog) {
  Config config = deck.config;
  // Nobody else may write into the run's folder, from before its checkpoints are read.
  std::optional<RunLock> lock;
  agree(world, [&] {
    const mpi::Working working(watchdog, "locking the run's folder");
    if (world.is_root() && is_there(config.run.output)) lock.emplace(config.run.output, patience_with_lock_s);
  });
  std::vector<std::string> warnings;
  std::optional<LoadedCheckpoint> resumed = find_beginning(config, world, watchdog, warnings);
  const auto saved_choices = resumed ? resumed->state.choices : std::map<std::string, std::string>{};
  if (servers != nullptr) servers->set_folder(config.run.output);
  const std::optional<Staged> staged = stage(config, world, servers, watchdog);
  watchdog.beat("comparing clocks and finding hosts", -1);
  Tracing tracing(config, world);
  RunParts run(config, world, failure, watchdog, saved_choices,
               tracing.communication(config.strategy.communicators), servers);

  const Continuation continuation = resumed ? restore_run(*resumed, run) : Continuation();
  const auto loaded = resumed ? std::vector<std::string>() : load_initial_weights(run, warnings);

  // The run's folder. From here on there is something to write a failure into.
  std::unique_ptr<Reporter> reporter;
  std::unique_ptr<CheckpointWriter> writer;
  std::unique_ptr<CheckpointWriter> own_writer;
  const SavingWorkers saving = saving_workers(world);
  const int job_rank = run.machine.places[static_cast<std::size_t>(world.rank())].rank;
  const std::string checkpoints = config.run.output + "/checkpoints";
  const auto open = [&] {
    const mpi::Working working(watchdog, "opening the run's folder");
    reporter = std::make_unique<Reporter>(ReporterOptions{.folder = config.run.output,
                                                          .rank = world.rank(),
                                                          .job_rank = job_rank,
                                                          .append = resumed.has_value(),
                                                          .resumed_step = resumed ? resumed->state.step : 0,
                                                          .resolved_deck = config.resolved_text});
    writer = std::make_unique<CheckpointWriter>(checkpoints, config.checkpoint.keep, saving);
    if (config.checkpoint.per_rank)
      own_writer = std::make_unique<CheckpointWriter>(rank_file(checkpoints, world.rank(), ""),
                                                      config.checkpoint.keep);
  };
  agree(world, [&] {
    if (!world.is_root()) return;
    if (!lock) {
      make_output_folder(config.run.output);
      lock.emplace(config.run.output);
    }
    open();
  });
  agree(world, [&] {
    if (!world.is_root()) open();
  });
  failure.set_folder(config.run.output);
  agree(world, [&] {
    const mpi::Working working(watchdog, "writing the roles");
    if (servers != nullptr && world.is_root()) write_roles(config.run.output, servers->roles().table());
  });

  Beginning beginning;
  if (resumed)
    beginning = {.step = resumed->state.step,
                 .position = resumed->state.position,
                 .samples = resumed->state.samples,
                 .checkpoint = resumed->path};
  watchdog.beat("giving all workers one model", -1);
  if (!continuation.own_state) run.sync.strategy->start();
  if (resumed)
    run.sync.strategy->resume({.steps = beginning.step,
                               .epochs = progress_of(config, run.data.sharding, beginning.position).epochs,
                               .numbers = continuation.numbers,
                               .own_state = continuation.own_state});
  std::optional<mpi::Working> telling(std::in_place, watchdog, "reporting the start");
  introduce(arguments.deck, start, run, resumed, *reporter);
  for (const std::string& warning : warnings_of_binding(config, start, run.machine.places))
    reporter->warn(warning);
  for (const std::string& warning : mpi::gpu_warnings(run.machine.places, run.machine.gpus))
    reporter->warn(warning);
  for (const Reduction* reduction : {&run.sync.averaging, &run.sync.reduction})
    if (!reduction->left_out.empty()) reporter->warn(reduction->left_out);
  if (start.network)
    for (const std::string& warning : start.network->verdict.warnings) reporter->warn(warning);
  if (!continuation.note.empty()) reporter->say(continuation.note);
  if (staged) reporter->say(cat("staged       ", describe(*staged)));
  for (const std::string& line : loaded) reporter->say(line);
  for (const std::string& note : deck.notes) reporter->say(note);
  for (const std::string& warning : warnings) reporter->warn(warning);
  if (lock && !lock->warning().empty()) reporter->warn(lock->warning());

  const TimeLimit limit = find_time_limit(config.run, world, *reporter);
  const std::int64_t begin_ns = trace::now_ns();
  StartReport facts{.deck = arguments.deck,
                    .workers = world.size(),
                    .hosts = mpi::hosts(start.places),
                    .steps = planned_steps(config.train, run.data.sharding),
                    .steps_per_epoch = run.data.sharding.steps_per_epoch(),
                    .first_step = beginning.step,
                    .global_batch_size = run.data.sharding.global_batch(),
                    .parameters = run.model.network->layout().values(),
                    .device = run.machine.device->description(),
                    .all_reduce = exchange_of(run)};
  if (start.network) add_network(*start.network, start.places, facts);
  reporter->start(facts);
  telling.reset();
  Trainer trainer({.run = run,
                   .reporter = *reporter,
                   .writers = {.shared = writer.get(), .own = own_writer.get()},
                   .failure = failure,
                   .loading = tracing.loading(),
                   .build = version_line(),
                   .limit = limit},
                  beginning);
  const Ending ending = end_job_on_failure(failure, [&] {
    const Ending done = trainer.run();
    if (run.sync.embeddings)
      for (const std::string& line : run.sync.embeddings->report(world))
        reporter->say(cat("workers      ", line));
    if (servers != nullptr)
      for (const std::string& line : servers->leave()) reporter->say(cat("servers      ", line));
    return done;
  });
  // After a stop the checkpoint is there: whoever submits again on 75 is to do so, though a report was lost.
  try {
    agree(world, [&] {
      const mpi::Working working(watchdog, "writing the trace", ending.step);
      tracing.write();
    });
  } catch (const AgreedFailure& error) {
    if (!ending.stopped) throw;
    reporter->warn(error.what());
  }
  std::array<std::int64_t, 2> largest{peak_memory_bytes(), static_cast<std::int64_t>(ending.too_short)};
  world.all_reduce(std::span<std::int64_t>(largest), mpi::Op::max);
  try {
    reporter->end({.reason = ending.reason,
                   .step = ending.step,
                   .seconds = static_cast<double>(trace::now_ns() - begin_ns) * 1e-9,
                   .peak_memory_bytes = largest[0],
                   .skipped_steps = run.model.loss_scale.enabled()
                                        ? std::optional(run.model.loss_scale.skipped())
                                        : std::nullopt});
  } catch (const UserError& error) {
    if (!ending.stopped) throw;
    reporter->warn(error.what());
  }
  const bool too_short = largest[1] > 0;
  if (too_short && world.is_root())
    print_error_line(fmt::format(
        "flotilla: the time limit left time for one step only, {:.0f} s after the start; the checkpoint is "
        "there, but to submit the same again would gain no more: ask for more time (sbatch --time), or try "
        "a smaller run.stop_margin_s",
        process_age_s()));
  world.barrier();
  if (too_short) return exit_user_error;
  return ending.stopped ? exit_stopped : exit_done;
}

}  // namespace

int train(const TrainArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  const LoadedDeck deck = load_deck_everywhere(arguments.deck, arguments.overrides, world);
  const auto work = [&](const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog) {
    StartUp start;
    if (!arguments.check) start = look_around(deck.config, world, places, watchdog);
    return with_servers(deck.config, world, failure, watchdog,
                        [&](const mpi::Communicator& workers, ServerLink* servers) {
                          if (arguments.check) return check(deck, workers, servers, failure, watchdog);
                          return train_worker(arguments, deck, start, workers, servers, failure, watchdog);
                        });
  };
  return under_watch(deck.config, world, failure, work);
}

}  // namespace flotilla
