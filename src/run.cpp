// SPDX-License-Identifier: Apache-2.0
#include "src/run.hpp"

#include <chrono>
#include <csignal>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/gpu/loops/kokkos_scope.hpp"
#include "kernels/openmp_waiting.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/command_line.hpp"
#include "src/commands/version.hpp"
#include "src/job/failure.hpp"
#include "src/job/launcher.hpp"
#include "src/job/stop_request.hpp"
#include "src/observe/failure_report.hpp"
#include "src/observe/print.hpp"

namespace {

using flotilla::CommandLine;

int say_error(const std::string& text, int exit_code) {
  flotilla::print_error_line("flotilla: " + text);
  return exit_code;
}

/// Refuses a command for one process of which a launcher started several: they would all write one file, and
/// a process that runs another command next to them would wait for them in MPI forever.
void check_alone(const flotilla::Subcommand& command, const flotilla::LaunchedProcess& process) {
  if (!command.runs_alone || command.once_a_host) return;
  // Only process 0 reports: when it has ended, the launcher ends the others.
  if (process.number > 0) std::this_thread::sleep_for(std::chrono::seconds(2));
  throw flotilla::UserError(flotilla::cat("this command is for one process, but ", process.launcher,
                                          " started ", process.count, ": start it without a launcher"));
}

/// Collective. @param failure what this rank met before MPI began; null: nothing
/// @throws AgreedFailure on every rank if one met anything, naming hosts or the rank where it was not all
void throw_together(const flotilla::mpi::Communicator& world, const std::exception_ptr& failure) {
  int failed = failure ? 1 : 0;
  world.all_reduce(std::span(&failed, 1), flotilla::mpi::Op::max);
  if (failed == 0) return;  // find_topology() takes up to 0.2 s
  flotilla::agree(world, flotilla::mpi::find_topology(world), [&failure] {
    if (failure) std::rethrow_exception(failure);
  });
}

/// Collective. Refuses ranks that run another build, command, file or option than rank 0. Of settings
/// (key=value) some may differ from host to host: check_same_deck() compares them.
/// @throws AgreedFailure on every rank, naming one that differs
void check_same_arguments(const flotilla::mpi::Communicator& world, std::span<char*> arguments) {
  std::string words = "flotilla";
  for (const std::string word : arguments)
    if (word.starts_with('-') || word.find('=') == word.npos) words += " " + word;
  const std::string build = flotilla::version_line();
  std::string first_words = words;
  std::string first_build = build;
  world.broadcast(first_words);
  world.broadcast(first_build);
  int differs = words == first_words && build == first_build ? 0 : 1;
  world.all_reduce(std::span(&differs, 1), flotilla::mpi::Op::max);
  if (differs == 0) return;
  flotilla::agree(world, [&] {
    if (words != first_words)
      throw flotilla::UserError(flotilla::cat("rank ", world.rank(), " was started as \"", words,
                                              "\", and rank 0 as \"", first_words,
                                              "\": give all ranks the same arguments"));
    if (build != first_build)
      throw flotilla::UserError(flotilla::cat("rank ", world.rank(), " is ", build, ", and rank 0 is ",
                                              first_build, ": start the same build on all ranks"));
  });
}

}  // namespace

int flotilla::run(int argc, char** argv, std::vector<ModelKind> own_models) {
  // Writing past a file-size limit or to a reader that left is an error to report, not a reason to die.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);

  // 1. Read the command line. Commands for one process end here.
  std::optional<CommandLine> line;
  // Thrown once MPI can tell the other ranks, which wait for this one to begin.
  std::exception_ptr own_failure;
  try {
    for (flotilla::ModelKind& kind : own_models) flotilla::add_model(std::move(kind));
    auto parsed = flotilla::parse_command_line(argv[0], {argv + 1, argv + argc}, flotilla::version_text());
    if (const auto* text = std::get_if<flotilla::PrintedText>(&parsed)) {
      flotilla::print_line(text->text);
      return flotilla::exit_done;
    }
    line = std::get<CommandLine>(parsed);
  } catch (const std::exception&) {
    own_failure = std::current_exception();
  }
  flotilla::leave_task_of_shell();
  const std::optional<flotilla::LaunchedProcess> launched = flotilla::launched_process();
  try {
    if (line && launched) check_alone(*line->command, *launched);
    if (line && line->command->runs_alone) return line->command->run_alone(line->arguments);
    const int ranks = line ? line->command->ranks_to_start(line->arguments) : 0;
    if (ranks > 1 && !launched) flotilla::start_ranks(ranks, argv);
  } catch (const std::exception& error) {
    return say_error(flotilla::text_of(error), flotilla::exit_code_of(error));
  }

  // 2. Threads that wait are to sleep soon instead of spinning: for that the program may restart itself here.
  if (const std::string failed = line ? flotilla::restart_with_short_spins(argv) : ""; !failed.empty())
    say_error(
        flotilla::cat("warning: threads will spin while they wait, which is slow where cores are shared: ",
                      failed, "; set GOMP_SPINCOUNT=2000"),
        flotilla::exit_done);

  // 3. Training stops in order when it is asked to; the listener comes before any other thread.
  std::optional<flotilla::StopListener> listener;

  // 4. MPI; everything below is destroyed before it.
  try {
    try {
      if (line && line->command->stops_in_order(line->arguments)) listener.emplace();
    } catch (const std::exception&) {
      own_failure = std::current_exception();
    }
    flotilla::mpi::Environment environment(argc, argv);
    const auto world = flotilla::mpi::Communicator::world();
    flotilla::FailureHandler failure(world.rank(), world.size(), flotilla::mpi::host_name());
    failure.end_job_at_terminate();
    if (launched && world.size() == 1) {
      if (launched->number > 0)
        std::this_thread::sleep_for(
            std::chrono::seconds(2));  // A launcher ends all after the first that ends
      else
        say_error(flotilla::singleton_mpi_error(*launched, flotilla::mpi::Environment::library_version()),
                  flotilla::exit_user_error);
      return flotilla::exit_user_error;
    }
    // Ends Kokkos after the command, also after a mistake that all ranks agree on.
    const flotilla::KokkosScope kokkos;
    try {
      throw_together(world, own_failure);
      check_same_arguments(world, {argv + 1, argv + argc});
      if (const std::string unsafe = flotilla::mpi::unsafe_process_ids(world); !unsafe.empty())
        throw flotilla::AgreedFailure(unsafe, flotilla::exit_user_error);
      // 5. The command: deck, device, model, data, strategy, training.
      return line->command->run_on_ranks(line->arguments, world, failure);
    } catch (const flotilla::AgreedFailure& error) {
      // Every rank throws the same error before training: the only orderly early exit.
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
