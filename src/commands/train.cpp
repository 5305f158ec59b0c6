// SPDX-License-Identifier: Apache-2.0
#include "src/commands/train.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/clock.hpp"
#include "src/commands/check.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/start_report.hpp"
#include "src/commands/start_up.hpp"
#include "src/commands/subcommand.hpp"
#include "src/commands/version.hpp"
#include "src/files/atomic_file.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/job/time_limit.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/observe/trace_file.hpp"
#include "src/train/mlperf_facts.hpp"
#include "src/train/resume.hpp"
#include "src/train/run_folder.hpp"
#include "src/train/run_parts.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

/// The trace of this rank if the deck asks for one, otherwise null sinks.
class Tracing {
 public:
  Tracing(const Config& config, const mpi::Communicator& world) : loading_(loader_options(config.data)) {
    if (!config.run.files.trace) return;
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

/// Collective over the workers. roles.txt in the run's folder, with servers.
void write_roles(const Machine& machine, const std::string& folder) {
  agree(machine.workers, [&] {
    const mpi::CpuProgressScope working(machine.watchdog, "writing the roles");
    if (machine.servers == nullptr || !machine.workers.is_root()) return;
    std::string text;
    for (const std::string& line : mpi::lines_of(machine.servers->roles().table())) text += line + "\n";
    write_text_file_atomically(folder + "/roles.txt", text);
  });
}

/// The time limit on worker 0, whose clock decides and which alone asks Slurm.
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

/// mlperf.log on worker 0 if the deck asks for it, with its lines about the start written; otherwise null.
std::unique_ptr<MlperfLog> make_mlperf_log(const RunParts& run, const LoadedCheckpoint* resumed) {
  if (!run.config.run.files.mlperf_log || !run.machine.workers.is_root()) return nullptr;
  const std::int64_t epochs = resumed == nullptr ? 0 : resumed->state.position.epoch;
  const std::int64_t step = resumed == nullptr ? 0 : resumed->state.step;
  auto log = std::make_unique<MlperfLog>(run.config.run.output + "/mlperf.log", step, epochs);
  log->run_starts(mlperf_facts(run), process_age_s());
  return log;
}

/// Collective over the workers. After the last step: reports on rows and lets the servers go.
void leave_servers(RunParts& run, Reporter& reporter) {
  if (run.sync.embeddings)
    for (const std::string& line : run.sync.embeddings->report(run.machine.workers))
      reporter.say(cat("workers      ", line), Message::detail);
  if (run.machine.servers != nullptr)
    for (const std::string& line : run.machine.servers->leave())
      reporter.say(cat("servers      ", line), Message::detail);
}

/// A run that was stopped has its checkpoint: it ends with exit_stopped, so that it is submitted again, even
/// where its last reports cannot be written.
template <class Failure, class Write>
void write_last(const Ending& ending, Reporter& reporter, Write write) {
  try {
    write();
  } catch (const Failure& error) {
    if (!ending.stopped) throw;
    reporter.warn(error.what());
  }
}

/// Collective over the workers. The files whose contents were kept in memory until the end. @param mlperf
/// null: none
void flush_outputs(const Ending& ending, MlperfLog* mlperf, Tracing& tracing,
                   const mpi::Communicator& workers, mpi::Watchdog& watchdog, Reporter& reporter) {
  write_last<AgreedFailure>(ending, reporter, [&] {
    agree(workers, [&] {
      if (mlperf != nullptr) mlperf->write();
      const mpi::CpuProgressScope working(watchdog, "writing the trace", ending.step);
      tracing.write();
    });
  });
}

/// Collective over the workers. The end in metrics and on the console. @returns the exit code
int report_end(const Ending& ending, double seconds, const RunParts& run, Reporter& reporter,
               bool job_has_advanced) {
  const mpi::Communicator& workers = run.machine.workers;
  std::array<std::int64_t, 2> largest{peak_memory_bytes(), static_cast<std::int64_t>(ending.too_short)};
  workers.all_reduce(std::span<std::int64_t>(largest), mpi::Op::max);
  const LossScale& scale = run.model.loss_scale;
  const bool alone = workers.size() == 1 && run.machine.servers == nullptr;
  write_last<UserError>(ending, reporter, [&] {
    reporter.end({.reason = ending.reason,
                  .step = ending.step,
                  .seconds = seconds,
                  .peak_memory_bytes = largest[0],
                  .skipped_steps = scale.enabled() ? std::optional(scale.skipped()) : std::nullopt,
                  .exposed_comm_s = alone ? std::nullopt : std::optional(ending.exposed_comm_s),
                  .sent = run.sync.sent()});
  });
  const bool too_short = largest[1] > 0 && !job_has_advanced;
  if (too_short && workers.is_root())
    print_error_line(fmt::format(
        "flotilla: the time limit left time for one step only, {:.0f} s after the start; the checkpoint is "
        "there, but resubmitting unchanged will not help: ask for more time (sbatch --time), or try "
        "a smaller run.stop_margin_s",
        process_age_s()));
  workers.barrier();
  if (too_short || !ending.divergence.empty()) return exit_user_error;
  return ending.stopped ? exit_stopped : exit_done;
}

Trained train_worker(const Training& training, const StartUp& machines, JobRoles& roles,
                     FailureHandler& failure, mpi::Watchdog& watchdog) {
  const LoadedDeck& deck = training.deck;
  Config config = deck.config;
  const mpi::Communicator& workers = roles.workers();
  ServerLink* const servers = roles.servers();
  // 1. Lock the run's folder before its checkpoints are read.
  RunFolder folder(config, workers, watchdog);
  std::vector<std::string> warnings;
  const std::vector<std::string> rescued = rescue_resident_state(config, workers, watchdog);
  const std::optional<LoadedCheckpoint> found = find_beginning(config, workers, watchdog, warnings);
  const LoadedCheckpoint* const resumed = found ? &*found : nullptr;
  if (servers != nullptr) servers->set_folder(config.run.output);
  // 2. Copy the data to the hosts if the deck asks for that.
  const std::optional<Staged> staged = stage(config, workers, servers, watchdog);
  // 3. The four parts of the run.
  watchdog.beat("comparing clocks and finding hosts", -1);
  Tracing tracing(config, workers);
  RunParts run(config, {workers, servers, failure, watchdog},
               found ? found->state.choices : std::map<std::string, std::string>{},
               tracing.communication(communicators(config)));
  // 4. The values to begin with.
  StartValues values = restore_or_load(found, run, warnings);
  const std::string none_in_memory = why_none_in_memory(run);
  // 5. Files. From here on there is a folder to write a failure into.
  folder.open(run.machine.own_place(), resumed, training.deck_path);
  failure.set_folder(config.run.output);
  write_roles(run.machine, config.run.output);
  // 6. One model on all workers, and a report of all that.
  begin(run, resumed, values.continuation);
  Reporter& reporter = folder.reporter();
  std::optional<mpi::CpuProgressScope> reporting(std::in_place, watchdog, "reporting the start");
  if (const std::string warning = folder.warning(); !warning.empty()) warnings.push_back(warning);
  report_start({training.deck_path, deck, machines, resumed, values, staged, warnings, folder.keeps_deck()},
               run, reporter);
  for (const std::string& line : rescued) reporter.say(cat("memory       ", line));
  if (!none_in_memory.empty() && config.checkpoint.resident == Resident::automatic)
    reporter.say(cat("memory       no state is kept in it: ", none_in_memory));
  const TimeLimit limit = find_time_limit(config.run, workers, reporter);
  std::unique_ptr<MlperfLog> mlperf;
  agree(workers, [&] { mlperf = make_mlperf_log(run, resumed); });
  reporting.reset();
  std::unique_ptr<ResidentSaves> resident;
  if (none_in_memory.empty()) resident = std::make_unique<ResidentSaves>(run);
  // 7. Steps.
  const std::int64_t begin_ns = trace::now_ns();
  Trainer trainer({.run = run,
                   .reporter = reporter,
                   .writers = folder.writers(resident.get()),
                   .failure = failure,
                   .loading = tracing.loading(),
                   .build = version_numbers(),
                   .limit = limit,
                   .ends_job_when_diverged = training.ends_job_when_diverged,
                   .mlperf = mlperf.get()},
                  values.beginning);
  Ending ending;
  try {
    ending = trainer.run();
    leave_servers(run, reporter);
  } catch (...) {
    failure.end_job_unless_agreed();
  }
  // 8. The end.
  flush_outputs(ending, mlperf.get(), tracing, workers, watchdog, reporter);
  if (!ending.divergence.empty()) reporter.warn(ending.divergence);
  return {.exit_code = report_end(ending, seconds(trace::now_ns() - begin_ns), run, reporter,
                                  training.job_has_advanced),
          .divergence = ending.divergence};
}

}  // namespace

Trained train(const Training& training, const mpi::Communicator& world, FailureHandler& failure) {
  const Config& config = training.deck.config;
  JobWatchdog job(training.deck, world, failure);
  const StartUp start = probe_machines(config, world, job.places(), job.watchdog());
  JobRoles roles(config, world, failure, job.watchdog());
  if (roles.is_server()) return {.exit_code = roles.serve()};
  if (roles.workers().is_root()) Console::of_process().use_terminal();
  const Trained trained = train_worker(training, start, roles, failure, job.watchdog());
  roles.set_exit_code(trained.exit_code);
  return trained;
}

int train(const TrainArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  Console::of_process().set_verbosity(arguments.verbosity);
  const LoadedDeck deck = load_deck_everywhere(arguments.deck, arguments.overrides, world);
  if (!arguments.check) return train({.deck_path = arguments.deck, .deck = deck}, world, failure).exit_code;
  JobWatchdog job(deck, world, failure);
  JobRoles roles(deck.config, world, failure, job.watchdog());
  if (roles.is_server()) return roles.serve();
  return check(deck, roles.workers(), roles.servers(), failure, job.watchdog(), arguments.check_data);
}

void add_verbosity(CLI::App& command, Verbosity& verbosity) {
  CLI::Option* const verbose = command.add_flag_callback(
      "--verbose", [&verbosity] { verbosity = Verbosity::verbose; }, "Show all lines of the run's log");
  command
      .add_flag_callback(
          "--quiet", [&verbosity] { verbosity = Verbosity::quiet; },
          "Show the result, warnings and errors only")
      ->excludes(verbose);
}

Subcommand train_command() {
  return SubcommandOf<TrainArguments>{
      .name = "train",
      .help = "Train the network of a deck",
      .add_options =
          [](CLI::App& command, TrainArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "DECK",
                                 "TOML file of the run; inputs/reference.toml explains every key", true);
            positionals.add_overrides(command);
            add_verbosity(command, arguments.verbosity);
            CLI::Option* const check = command.add_flag(
                "--check", arguments.check,
                "Construct everything, print the resolved deck, the memory it takes and the steps per "
                "epoch, and stop");
            command
                .add_flag("--data", arguments.check_data,
                          "With --check: read each sample once, and tell all that cannot be read")
                ->needs(check);
          },
      .take_positionals =
          [](TrainArguments& arguments, Positionals& positionals) {
            arguments.deck = positionals.take_deck(true);
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = train,
      .stops_in_order = [](const TrainArguments& arguments) { return !arguments.check; },
  };
}

}  // namespace flotilla
