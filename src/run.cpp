// SPDX-License-Identifier: Apache-2.0
#include "src/run.hpp"

#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/build_info.hpp"
#include "kernels/device_loops/kokkos_scope.hpp"
#include "kernels/error.hpp"
#include "kernels/error_text.hpp"
#include "kernels/openmp_waiting.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/bench_all_reduce.hpp"
#include "src/commands/bench_input.hpp"
#include "src/commands/bench_step.hpp"
#include "src/commands/command_line.hpp"
#include "src/commands/evaluate.hpp"
#include "src/commands/export.hpp"
#include "src/commands/inspect.hpp"
#include "src/commands/make_data.hpp"
#include "src/commands/train.hpp"
#include "src/commands/version.hpp"
#include "src/job/failure.hpp"
#include "src/job/slurm.hpp"
#include "src/job/stop_request.hpp"
#include "src/observe/failure_report.hpp"
#include "src/observe/print.hpp"

namespace {

using flotilla::CommandLine;

int say_error(const std::string& text, int exit_code) {
  flotilla::print_error_line("flotilla: " + text);
  return exit_code;
}

bool is_for_one_process(CommandLine::Command command) {
  using Command = CommandLine::Command;
  return command == Command::inspect || command == Command::export_model || command == Command::make_data;
}

/// Commands for one process, on a login node too: MPI is not touched.
int run_alone(const CommandLine& line) {
  const auto warn = [](const std::string& text) { flotilla::print_error_line("flotilla: warning: " + text); };
  if (line.command == CommandLine::Command::inspect) {
    const flotilla::Inspection inspection =
        flotilla::inspect(line.checkpoint, {.json = line.json, .deck = line.show_deck, .on_damaged = warn});
    flotilla::print_line(inspection.text);
    if (!inspection.damage.empty()) throw flotilla::UserError(inspection.damage);
    return flotilla::exit_done;
  }
  if (line.command == CommandLine::Command::make_data) {
    flotilla::print_line(flotilla::make_criteo_data({.rows = line.rows,
                                                     .validation_rows = line.validation_rows,
                                                     .seed = line.seed,
                                                     .vocabulary = line.vocabulary,
                                                     .output = line.output,
                                                     .truth = line.truth}));
    return flotilla::exit_done;
  }
  const std::string from = flotilla::export_model(line.checkpoint, line.output, warn);
  flotilla::print_line(flotilla::cat("exported ", from, " to ", line.output));
  return flotilla::exit_done;
}

int run_together(const CommandLine& line, const flotilla::mpi::Communicator& world,
                 flotilla::FailureHandler& failure) {
  using Command = CommandLine::Command;
  switch (line.command) {
    case Command::train:
      return flotilla::train({.deck = line.deck, .overrides = line.overrides, .check = line.check}, world,
                             failure);
    case Command::evaluate:
      return flotilla::evaluate_checkpoint({.checkpoint = line.checkpoint,
                                            .deck = line.deck,
                                            .overrides = line.overrides,
                                            .vectors = line.vectors,
                                            .per_class = line.per_class},
                                           world, failure);
    case Command::bench_all_reduce:
      return flotilla::bench_all_reduce({.min_bytes = static_cast<std::size_t>(line.min_bytes),
                                         .max_bytes = static_cast<std::size_t>(line.max_bytes),
                                         .in_place = line.in_place,
                                         .device = flotilla::choice<flotilla::DeviceKind>(line.device),
                                         .ranks_per_group = line.ranks_per_group,
                                         .communicators = line.communicators,
                                         .json = line.json_file},
                                        world);
    case Command::bench_input:
      return flotilla::bench_input({.deck = line.deck,
                                    .overrides = line.overrides,
                                    .list = line.list,
                                    .root = line.root,
                                    .filter = flotilla::choice<flotilla::ResizeFilter>(line.filter),
                                    .device = flotilla::choice<flotilla::DeviceKind>(line.device),
                                    .threads = line.threads,
                                    .size = line.size,
                                    .seconds = line.seconds,
                                    .images = line.images,
                                    .json = line.json_file},
                                   world, failure);
    case Command::bench_step:
      return flotilla::bench_step({.deck = line.deck,
                                   .overrides = line.overrides,
                                   .steps = line.steps,
                                   .checkpoint_every = line.checkpoint_every,
                                   .operations = line.operations,
                                   .json = line.json_file},
                                  world, failure);
    case Command::inspect:
    case Command::export_model:
    case Command::make_data: break;
  }
  throw flotilla::InternalError("a command for one process was started on all ranks");
}

}  // namespace

int flotilla::run(int argc, char** argv, std::vector<ModelKind> own_models) {
  // Writing past a file-size limit or to a reader that left is an error to report, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);

  // 1. What does the user want? Commands for one process end here.
  std::optional<CommandLine> line;
  std::string usage_error;
  try {
    flotilla::check_processor();
    for (flotilla::ModelKind& kind : own_models) flotilla::add_model(std::move(kind));
    auto parsed = flotilla::parse_command_line(argv[0], {argv + 1, argv + argc}, flotilla::version_text());
    if (const auto* text = std::get_if<flotilla::PrintedText>(&parsed)) {
      flotilla::print_line(text->text);
      return flotilla::exit_done;
    }
    line = std::get<CommandLine>(parsed);
    if (is_for_one_process(line->command)) return run_alone(*line);
  } catch (const flotilla::UserError& error) {
    if (line) return say_error(error.what(), flotilla::exit_user_error);
    usage_error = error.what();  // every rank of a job has it: one of them prints it
  } catch (const std::exception& error) {
    return say_error(flotilla::text_of(error), flotilla::exit_code_of(error));
  }

  // 2. What computes does so with threads that sleep soon while they wait. Here the program may start anew.
  if (const std::string failed = line ? flotilla::restart_with_short_spins(argv) : ""; !failed.empty())
    say_error(
        flotilla::cat("warning: threads will spin while they wait, which is slow where cores are shared: ",
                      failed, "; set GOMP_SPINCOUNT=2000"),
        flotilla::exit_done);

  // 3. Training stops in order when it is asked to; the listener comes before any other thread.
  std::optional<flotilla::StopListener> listener;

  // 4. MPI; everything below is destroyed before it.
  const bool disconnected = flotilla::slurm_tasks_disconnected();
  try {
    if (line && line->command == CommandLine::Command::train && !line->check) listener.emplace();
    flotilla::mpi::Environment environment(argc, argv);
    const auto world = flotilla::mpi::Communicator::world();
    flotilla::FailureHandler failure(world.rank(), world.size(), flotilla::mpi::host_name());
    failure.end_job_at_terminate();
    if (disconnected && world.size() == 1) {
      if (flotilla::slurm_first_task())
        say_error(
            "srun started several tasks, but MPI did not bring them together: each would train alone. Use "
            "srun --mpi=pmix (srun --mpi=list shows what there is), or mpirun",
            flotilla::exit_user_error);
      return flotilla::exit_user_error;
    }
    try {
      if (!line) throw flotilla::AgreedFailure(usage_error, flotilla::exit_user_error);
      // 5. The end of Kokkos, then the command: deck, device, model, data, strategy, training.
      const flotilla::KokkosScope kokkos;
      return run_together(*line, world, failure);
    } catch (const flotilla::AgreedFailure& error) {
      // Every rank throws this alike, before training: the only orderly early exit.
      if (world.is_root()) say_error(error.what(), error.exit_code);
      world.barrier();
      return error.exit_code;
    } catch (const std::exception& error) {
      // A failure on one rank perhaps, and the others may be waiting for it.
      failure.end_job(error);
    }
  } catch (const std::exception& error) {
    return say_error(flotilla::text_of(error), flotilla::exit_code_of(error));
  }
}
