// SPDX-License-Identifier: Apache-2.0
#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/report.hpp"
#include "src/commands/subcommand.hpp"
#include "src/commands/train.hpp"
#include "src/compare/comparison_table.hpp"
#include "src/compare/plan.hpp"
#include "src/compare/run_figures.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/dataset.hpp"
#include "src/files/atomic_file.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/job/stop_request.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/train/run_data.hpp"

namespace flotilla {

namespace {

struct CompareArguments {
  std::string plan;                    ///< TOML (src/compare/plan.hpp)
  std::vector<std::string> overrides;  ///< For all of its runs
  Verbosity verbosity = Verbosity::normal;
  int ranks = 0;  ///< Ranks to start if no launcher did; 0: none
};

/// A plan that all ranks have read and checked, with what became of its trainings.
struct Prepared {
  Plan plan;
  std::vector<PlannedTraining> trainings;
  std::vector<Progressed> progress;   ///< By training
  std::vector<std::string> failures;  ///< By training: why it could not be trained; empty: it could
  std::vector<mpi::Place> places;     ///< Places of all ranks
  bool advanced = false;              ///< Whether a training has ended in this process

  std::string name_of(std::size_t training) const {
    return cat(plan.runs[trainings[training].run].name, ", seed ", trainings[training].seed);
  }
  /// The folder of the whole comparison, absolute.
  std::string folder() const {
    return std::filesystem::path(trainings.front().deck.config.run.output).parent_path().parent_path();
  }
};

/// The samples of a step over all workers. @throws UserError where the configuration does not fit the ranks
std::int64_t global_batch_of(const Config& config, const std::vector<mpi::Place>& places) {
  constexpr std::int64_t many_samples = std::numeric_limits<std::int32_t>::max();
  const int workers = roles_of(config, places).count(mpi::Role::worker);
  return make_sharding(config, many_samples, workers).global_batch();
}

/// Collective. Rank 0 reads plan and deck, every rank checks all runs.
Prepared prepare(const CompareArguments& arguments, const mpi::Communicator& world) {
  std::string text;
  agree(world, [&] {
    if (world.is_root()) text = read_deck_file(arguments.plan, "plan", "inputs/plans/compare_digits.toml");
  });
  world.broadcast(text);
  PlanReading reading = read_plan(arguments.plan, text);
  std::string deck;
  std::string unreadable;
  if (world.is_root() && !reading.plan.deck.empty()) {
    try {
      deck = read_deck_file(reading.plan.deck);
    } catch (const UserError& error) {
      unreadable = error.what();
    }
  }
  world.broadcast(deck);
  world.broadcast(unreadable);
  if (!unreadable.empty()) reading.mistakes.push_back(cat(arguments.plan, ": ", unreadable));
  Prepared prepared;
  prepared.places = mpi::find_topology(world);
  agree(world, [&] {
    prepared.trainings = planned_trainings(reading, deck, arguments.overrides, [&](const Config& config) {
      return global_batch_of(config, prepared.places);
    });
  });
  prepared.plan = std::move(reading.plan);
  prepared.failures.resize(prepared.trainings.size());
  return prepared;
}

/// The identities of the deck's data now. Empty if they cannot be read: trainings that have ended do not need
/// them, and all others say why.
DataIdentities data_of(Config config) {
  DataIdentities data;
  try {
    DatasetUse use = use_of(config.model);
    std::map<std::string, File> copies;  // of tables, which are looked through before they are opened
    if (const DataReader& reader = reader_of(config.data.kind); reader.find != nullptr)
      copies = reader.inflate({config.data, config.data.train, config.model.classes, 0, use});
    for (const auto& [path, copy] : copies) use.inflated[path] = copy.handle();
    find_in_data(config, use);
    data["data.train"] = identity_of(*open_dataset(config.data, config.data.train, config.model.classes,
                                                   static_cast<std::uint64_t>(config.run.seed), use));
    const auto validation = open_validation_data(config, use);
    if (validation) data["data.validation"] = identity_of(*validation);
  } catch (const UserError&) {
    return {};
  }
  return data;
}

/// Collective. Rank 0 reads the folders of all trainings. @throws AgreedFailure naming all that hold runs of
/// other decks, on other data or of other numbers of workers
std::vector<Progressed> find_progress(const Prepared& prepared, const mpi::Communicator& world) {
  std::vector<Progressed> found(prepared.trainings.size());
  agree(world, [&] {
    if (!world.is_root()) return;
    std::string others;
    std::optional<DataIdentities> data;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Config& config = prepared.trainings[i].deck.config;
      try {
        const int workers = roles_of(config, prepared.places).count(mpi::Role::worker);
        const Progressed progress = progress_in(config.run.output, config.resolved_text, workers);
        found[i] = progress;
        if (progress == Progressed::not_begun) continue;
        if (!data) data = data_of(config);
        check_data(config.run.output, read_figures(config.run.output, std::nullopt).data,
                   data->empty() ? "elsewhere" : "now", *data);
      } catch (const UserError& error) {
        others += (others.empty() ? "" : "\n") + std::string(error.what());
      }
    }
    if (!others.empty()) throw UserError(others);
  });
  broadcast_packed(found, world);
  return found;
}

/// Collective. Whether any rank was asked to stop.
bool asked_to_stop(const mpi::Communicator& world) {
  std::int32_t asked = stop_signal() != 0 ? 1 : 0;
  world.all_reduce(std::span(&asked, 1), mpi::Op::max);
  return asked > 0;
}

/// Collective. @returns the exit code with which the comparison ends now; exit_done: it goes on
int train_one(Prepared& prepared, std::size_t number, const mpi::Communicator& world,
              FailureHandler& failure) {
  if (world.is_root())
    print_line(cat("\ncomparison   ", number + 1, " of ", prepared.trainings.size(), ": ",
                   prepared.name_of(number)));
  int exit_code = exit_done;
  std::int32_t diverged = 0;
  try {
    const Trained trained = train({.deck_path = prepared.plan.deck,
                                   .deck = prepared.trainings[number].deck,
                                   .ends_job_when_diverged = false,
                                   .job_has_advanced = prepared.advanced},
                                  world, failure);
    exit_code = trained.exit_code;
    diverged = trained.divergence.empty() ? 0 : 1;
    prepared.advanced = true;
  } catch (const AgreedFailure& error) {
    if (error.exit_code != exit_user_error) throw;
    prepared.failures[number] = cat("failed: ", error.what());
    if (world.is_root()) print_error_line(cat("flotilla: ", prepared.name_of(number), ": ", error.what()));
  }
  failure.set_folder("");
  failure.set_step(-1);
  world.all_reduce(std::span(&diverged, 1), mpi::Op::max);
  return diverged > 0 ? static_cast<int>(exit_done) : exit_code;
}

/// "AMD EPYC 9R14 96-Core Processor"; "an unknown processor" where the system does not say.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unknown processor";
}

std::string describe_machine(const std::vector<mpi::Place>& places) {
  const int hosts = mpi::hosts(places);
  return cat(processor_name(), ", ", places.size(), places.size() == 1 ? " rank on " : " ranks on ",
             places.front().host_cores, " cores", hosts > 1 ? cat(" of each of ", hosts, " hosts") : "");
}

/// @throws UserError if the data have changed between the trainings
Comparison results_of(const Prepared& prepared, const CompareArguments& arguments) {
  const Plan& plan = prepared.plan;
  Comparison comparison{
      .command = cat("mpirun -n ", prepared.places.size(), " flotilla compare ", arguments.plan),
      .machine = describe_machine(prepared.places),
      .equal = plan.equal,
      .seconds = plan.seconds,
      .target = plan.target};
  for (const std::string& each : arguments.overrides) comparison.command += " " + each;
  for (const PlannedRun& run : plan.runs) {
    comparison.runs.push_back({.name = run.name});
    for (const config::PlacedOverride& each : run.set) comparison.runs.back().set.push_back(each.text);
  }
  DataIdentities data;
  for (std::size_t i = 0; i < prepared.trainings.size(); ++i) {
    const PlannedTraining& training = prepared.trainings[i];
    ComparedTraining compared{
        .seed = training.seed, .folder = training.deck.config.run.output, .failure = prepared.failures[i]};
    if (compared.failure.empty()) {
      compared.figures = read_figures(compared.folder, plan.target);
      check_data(compared.folder, compared.figures.data, "in the trainings before", data);
      if (compared.figures.end == "diverged") compared.failure = "diverged";
    }
    comparison.runs[training.run].trainings.push_back(std::move(compared));
  }
  return comparison;
}

/// The curves of all trainings that have reported a step, as one page; a warning where it cannot be written.
void write_page(const Comparison& comparison, const std::string& file) {
  ReportArguments report;
  report.output = file;
  for (const ComparedRun& run : comparison.runs)
    for (const ComparedTraining& training : run.trainings)
      if (training.figures.steps > 0) report.runs.push_back(training.folder);
  if (report.runs.empty()) return;
  try {
    make_report(report, print_warning);
    print_line(cat("curves       ", file));
  } catch (const std::exception& error) {
    print_warning(cat("no page of the curves: ", error.what()));
  }
}

void write_results(const Prepared& prepared, const CompareArguments& arguments) {
  const Comparison comparison = results_of(prepared, arguments);
  const std::string table = markdown_of(comparison);
  print_line("\n" + table);
  const std::string file = prepared.folder() + "/compare";
  write_text_file_atomically(file + ".md", table);
  write_text_file_atomically(file + ".json", json_of(comparison));
  print_line(cat("table        ", file, ".md and .json"));
  write_page(comparison, file + ".html");
}

/// Collective. `flotilla compare`: trains all runs of a plan with all seeds, one after another, leaving out
/// those that have ended before, and writes the table. Returns the exit code. Throws only exceptions that
/// every rank throws.
int compare(const CompareArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  Console::of_process().set_verbosity(arguments.verbosity);
  agree(world, [&] {
    if (arguments.ranks != 0 && arguments.ranks != world.size())
      throw UserError(cat("--ranks ", arguments.ranks, ", but the launcher started ", world.size(),
                          ": leave out --ranks, or the launcher"));
  });
  // 1. All mistakes of the plan and its runs, before anything is trained.
  Prepared prepared = prepare(arguments, world);
  prepared.progress = find_progress(prepared, world);
  // 2. Each training by all ranks, in turn.
  for (std::size_t i = 0; i < prepared.trainings.size(); ++i) {
    if (prepared.progress[i] == Progressed::ended) continue;
    const int exit_code = asked_to_stop(world) ? exit_stopped : train_one(prepared, i, world, failure);
    if (exit_code == exit_done) continue;
    if (world.is_root() && exit_code == exit_stopped)
      print_line(cat("comparison   stopped in training ", i + 1, " of ", prepared.trainings.size(),
                     "; start the command again to go on"));
    return exit_code;
  }
  // 3. The table.
  agree(world, [&] {
    if (world.is_root()) write_results(prepared, arguments);
  });
  for (const std::string& each : prepared.failures)
    if (!each.empty()) return exit_user_error;
  return exit_done;
}

}  // namespace

Subcommand compare_command() {
  return SubcommandOf<CompareArguments>{
      .name = "compare",
      .help = "Train a deck in several ways, and compare them",
      .add_options =
          [](CLI::App& command, CompareArguments& arguments, Positionals& positionals) {
            add_verbosity(command, arguments.verbosity);
            command
                .add_option("--ranks", arguments.ranks,
                            "Start this many ranks on this machine, without mpirun or srun")
                ->check(CLI::PositiveNumber);
            positionals.add_file(command, "PLAN",
                                 "TOML file: a deck and what each run sets in it (docs/compare.md)");
            positionals.add_overrides(command);
          },
      .take_positionals =
          [](CompareArguments& arguments, Positionals& positionals) {
            if (positionals.files.size() != 1)
              throw UserError(
                  cat("one PLAN is needed, got ", positionals.files.size(), "; ", positionals.hint));
            arguments.plan = positionals.files.front();
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = compare,
      .stops_in_order = [](const CompareArguments& /*arguments*/) { return true; },
      .ranks_to_start = [](const CompareArguments& arguments) { return arguments.ranks; },
  };
}

}  // namespace flotilla
