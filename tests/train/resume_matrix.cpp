// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "src/commands/job_scopes.hpp"
#include "src/files/checksum.hpp"
#include "src/train/monitor/agreement.hpp"
#include "src/train/resume.hpp"
#include "src/train/run_folder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/resume_cases.hpp"
#include "tests/train/training_run.hpp"

// Resumes from every strategy into the same one and between it and all-reduce, with other batches, periods,
// beginnings, groups, warm-ups, wires and numbers of workers, in process, on five ranks:
//   mpirun -n 5 build/cpu/tests/train/resume_matrix --all
// After each step it looks at the workers' models and slots: those that must be equal are, those that train
// alone are not, and models are averaged when the deck says so.

namespace flotilla::test {
namespace {

constexpr std::int64_t steps_after = 14;
constexpr double steps_per_epoch_before = 13.0;  ///< ⌈150 samples ÷ 3 workers of 4⌉

const char* const deck_text = R"(
[device]
threads = 1
[model]
widths = [8]
classes = 2
[data]
kind = "random"
shape = [6]
threads = 1
train.samples = 150
[train]
epochs = 1000
batch_size = 4
[schedule]
kind = "constant"
learning_rate = 0.05
[run]
log_every = 1000000
)";

class Matrix {
 public:
  Matrix() { world_.broadcast(folder_path_); }

  /// Collective. @returns what is wrong; empty: nothing. A deck that is refused leaves its words in
  /// refusal().
  std::string check(const Case& one) {
    refusal_.clear();
    const Keys optimizer = {{"optimizer.kind", one.from.name == "adaptive" || one.to.name == "adaptive"
                                                   ? "momentum"
                                               : one.saved_step % 2 == 0 ? "adam"
                                                                         : "momentum"}};
    const Keys steps = {{"train.steps", std::to_string(one.saved_step)}};
    const std::string output =
        cat(folder_path_, "/", one.from.name, " ", optimizer.at("optimizer.kind"), " ", one.saved_step);
    const Keys same = optimizer | Keys{{"run.output", output}};
    if (!saved_[output]) {
      train(workers_before, one.from.keys | same | steps,
            [&](RunParts& run, FailureHandler& failure, mpi::Watchdog& watchdog) {
              RunFolder folder(run.config, run.machine.workers, watchdog);
              folder.open(run.machine.own_place(), nullptr, "");
              Continuation none;
              begin(run, nullptr, none);
              Trainer({.run = run,
                       .reporter = folder.reporter(),
                       .writers = folder.writers(),
                       .failure = failure,
                       .loading = loading(),
                       .build = ""},
                      {})
                  .run();
            });
      saved_[output] = true;
    }
    std::string wrong;
    try {
      train(one.workers, one.to.keys | one.change.keys | same,
            [&](RunParts& run, FailureHandler& failure, mpi::Watchdog& /*watchdog*/) {
              wrong = resume(one, run, failure);
            });
    } catch (const std::exception& error) {
      refusal_ = error.what();
    }
    std::int32_t rank_of_wrong = wrong.empty() ? world_.size() : world_.rank();
    world_.all_reduce(std::span(&rank_of_wrong, 1), mpi::Op::min);
    if (rank_of_wrong < world_.size()) world_.broadcast(wrong, rank_of_wrong);
    return wrong;
  }
  const std::string& refusal() const { return refusal_; }  ///< Refusal on rank 0; empty: it was not refused
  const mpi::Communicator& world() const { return world_; }

 private:
  static LoaderOptions loading() { return {.threads = 1, .prefetch = 2, .sink = {}}; }

  /// Collective over all ranks. Calls body on that number of workers.
  template <class Body>
  void train(int workers, const Keys& keys, const Body& body) {
    const int ranks = workers + (keys.contains("roles.servers") ? 1 : 0);
    const mpi::Communicator part = world_.split(world_.rank() < ranks ? 0 : 1);
    if (world_.rank() >= ranks) return;
    std::vector<std::string> overrides;
    for (const auto& [key, value] : keys) overrides.push_back(key + "=" + value);
    LoadedDeck deck = load_deck({.path = "matrix.toml", .text = deck_text, .overrides = overrides});
    FailureHandler failure(part.rank(), part.size(), "matrix");
    mpi::Watchdog watchdog(0.0, nullptr);
    JobRoles roles(deck.config, part, failure, watchdog);
    if (roles.is_server()) {
      roles.serve();
      return;
    }
    ServerLink* const servers = roles.servers();
    if (servers != nullptr) servers->set_folder(deck.config.run.output);
    std::vector<std::string> warnings;
    found_ = find_beginning(deck.config, roles.workers(), watchdog, warnings);
    RunParts run(deck.config, {roles.workers(), servers, failure, watchdog}, {});
    body(run, failure, watchdog);
    if (servers != nullptr) servers->leave();
  }

  std::string resume(const Case& one, RunParts& run, FailureHandler& failure);

  mpi::Communicator world_ = mpi::Communicator::world();
  TemporaryFolder folder_;
  std::string folder_path_ = folder_.path();
  std::map<std::string, bool> saved_;
  std::optional<LoadedCheckpoint> found_;
  std::string refusal_;
};

/// What a deck promises about steps, computed without the strategy.
class Promise {
 public:
  Promise(const Config& config, std::int64_t workers)
      : config_(config), local_(config.local_sgd()), workers_(workers) {
    if (local_ != nullptr)
      begin_epoch_ =
          local_->begin_epoch + std::floor(static_cast<double>(local_->begin_step) / steps_per_epoch_before);
  }

  bool before_begin(std::int64_t step, const Position& position) const {
    return local_ != nullptr &&
           (step < local_->begin_step || static_cast<double>(position.epoch) < local_->begin_epoch);
  }
  bool all_together(std::int64_t step, const Position& position) const {
    if (local_ == nullptr) return config_.server() == nullptr;
    return before_begin(step, position) && local_->before_begin == BeforeBegin::all_reduce;
  }
  bool in_groups() const { return local_ != nullptr && local_->group_all_reduce; }
  bool in_one_group() const { return in_groups() && config_.reduction.ranks_per_group >= workers_; }
  /// The period after an averaging, or a resume by another deck, at so many epochs; 0: an adaptive rule
  /// decides.
  std::int64_t period(double epochs) const {
    const double since = epochs - begin_epoch_;
    if (local_->adaptive) return 0;
    const auto whole = static_cast<std::int64_t>(std::max(0.0, std::floor(since)));
    if (local_->warm_up == PeriodWarmUp::exponential)
      return std::min(local_->period, std::int64_t{1} << whole);
    if (local_->warm_up == PeriodWarmUp::linear) return std::min(local_->period, 2 * (whole + 1));
    return local_->period;
  }
  const LocalSgdConfig* local() const { return local_; }

 private:
  const Config& config_;
  const LocalSgdConfig* local_;
  std::int64_t workers_;
  double begin_epoch_ = 0.0;  ///< Whole epochs at the beginning of local steps
};

/// Checksums of each worker's parameters and of its slots.
struct States {
  std::vector<std::int64_t> parameters, slots;

  explicit States(RunParts& run) {
    const auto of = [&](std::span<const StateArray> arrays) {
      std::vector<float> values;
      for (const StateArray& array : arrays) {
        std::vector<float> part(array.values.size());
        run.machine.device->memory().download(array.values, part);
        values.insert(values.end(), part.begin(), part.end());
      }
      const auto mine = static_cast<std::int64_t>(checksum_of(std::as_bytes(std::span(values))));
      return run.machine.workers.all_gather(std::span(&mine, 1));
    };
    const std::vector<StateArray> arrays = state_arrays(run.model.weights, run.model.optimizer.get());
    parameters = of(std::span(arrays).first(2));
    slots = of(std::span(arrays).subspan(2));
  }
  static bool equal(const std::vector<std::int64_t>& values) {
    return std::ranges::count(values, values.front()) == std::ssize(values);
  }
  bool all_equal() const { return equal(parameters) && equal(slots); }
  bool equal_in_groups_of(std::int64_t size) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::size_t first = i - i % static_cast<std::size_t>(size);
      if (parameters[i] != parameters[first] || slots[i] != slots[first]) return false;
    }
    return true;
  }
};

std::string Matrix::resume(const Case& one, RunParts& run, FailureHandler& failure) {
  if (!found_) return "there is no checkpoint";
  const Config& config = run.config;
  Continuation continuation = restore_run(*found_, run);
  begin(run, &*found_, continuation);
  Reporter reporter({.folder = "", .rank = 1});
  Trainer trainer(
      {.run = run,
       .reporter = reporter,
       .writers = {},
       .failure = failure,
       .loading = loading(),
       .build = ""},
      {.step = found_->state.step, .position = found_->state.position, .samples = found_->state.samples});
  const auto loader = trainer.make_loader();
  Strategy& strategy = *run.sync.strategy;
  const bool served = run.machine.servers != nullptr;
  AgreementCheck agreement(run.machine.workers, *run.model.network,
                           state_arrays(run.model.weights, served ? nullptr : run.model.optimizer.get()));
  Promise promise(config, run.machine.workers.size());
  const Sampler sampler(static_cast<std::uint64_t>(config.run.seed), run.data.sharding);
  const auto complain = [&](std::int64_t step, const std::string& what) {
    return cat("step ", step, ": ", what);
  };
  std::int64_t step = found_->state.step;
  Position position = sampler.after(found_->state.position, 0);
  const double epochs_before = static_cast<double>(found_->state.step) / steps_per_epoch_before;
  std::int64_t since = -1;  // Local steps since the last averaging; −1: not known
  std::int64_t length =
      promise.local() != nullptr && one.changes_periods() ? promise.period(epochs_before) : 0;  // 0: any
  for (std::int64_t i = 0; i < steps_after; ++i, ++step) {
    const bool together = promise.all_together(step, position);
    const bool before = promise.before_begin(step, position);
    if (!served) {
      const States states(run);
      if (together && !states.all_equal())
        return complain(step, "workers differ before a step of all together");
      if (promise.in_groups() && !states.equal_in_groups_of(config.reduction.ranks_per_group))
        return complain(step, "workers of a group differ before the step");
    }
    const StepOutcome outcome = trainer.step(*loader);
    position = sampler.after(position);
    if (!strategy.pace().independent && agreement.compare(strategy.replicated()))
      return complain(step, "the agreement check finds a difference");
    if (served) {
      if (config.server()->mode == ServerMode::sync && !States::equal(States(run).parameters))
        return complain(step, "workers of synchronous servers differ");
      continue;
    }
    const States states(run);
    if ((together || promise.in_one_group()) && !states.all_equal())
      return complain(step, "workers differ after a step of all together");
    if (promise.in_groups() && !states.equal_in_groups_of(config.reduction.ranks_per_group))
      return complain(step, "workers of a group differ after the step");
    // If there is one group, averagings change nothing.
    if (promise.local() == nullptr || promise.in_one_group()) continue;
    if (promise.local()->streaming.eager && !before) continue;  // they never hold one model
    const bool one_model = States::equal(states.parameters);
    if (before && !one_model) return complain(step, "models differ before the beginning of local steps");
    if (length > 0 && outcome.period != length && (before || !one_model))
      return complain(step, cat("the period is ", outcome.period, ", the deck's ", length));
    if (before) {
      since = 0;
    } else {
      if (since >= 0) ++since;
      if (one_model && since >= 0 && length > 0 && since != length)
        return complain(step, cat("averaged after ", since, " steps, the deck says ", length));
      if (!one_model && length > 0 && (since >= 0 ? since : i + 1) >= length)
        return complain(step, cat("not averaged after ", since, " steps, the deck says ", length));
      if (one_model) since = 0;
    }
    if (one_model) length = promise.period(epochs_at(run.data.sharding, position));
    if (one_model && length > 0 && outcome.period != length)
      return complain(step,
                      cat("the period after an averaging is ", outcome.period, ", the deck's ", length));
  }
  return {};
}

struct Options {
  bool all = false;
  int draw = 20;
  std::uint32_t seed = 0;
  std::string only;
};

/// The counts for a transition and a change.
struct Tally {
  int good = 0, refused = 0, wrong = 0;
};

int work(Matrix& matrix, const Options& options, std::FILE* out) {
  std::vector<Case> cases = all_cases();
  const std::size_t count = cases.size();
  std::erase_if(cases, [&](const Case& one) { return one.text().find(options.only) == std::string::npos; });
  if (!options.all) {
    std::shuffle(cases.begin(), cases.end(), std::mt19937(options.seed));
    cases.resize(std::min(cases.size(), static_cast<std::size_t>(options.draw)));
    std::fprintf(out, "%zu of %zu cases, --seed %u\n", cases.size(), count, options.seed);
  }
  std::map<std::string, std::map<std::string, Tally>> table;
  int wrong = 0;
  for (const Case& one : cases) {
    std::fprintf(out, "%s: ", one.text().c_str());
    std::fflush(out);
    const std::string what = matrix.check(one);
    Tally& tally = table[one.transition()][one.change.name];
    const bool refused = !matrix.refusal().empty();
    ++(refused ? tally.refused : what.empty() ? tally.good : tally.wrong);
    if (!what.empty()) ++wrong;
    std::fprintf(out, "%s\n",
                 refused        ? ("refused: " + matrix.refusal()).c_str()
                 : what.empty() ? "good"
                                : ("WRONG: " + what).c_str());
  }
  std::fprintf(out, "\n%-34s %-28s %6s %8s %6s\n", "strategy", "change", "good", "refused", "wrong");
  Tally sum;
  for (const auto& [transition, row] : table)
    for (const auto& [change, tally] : row) {
      std::fprintf(out, "%-34s %-28s %6d %8d %6d\n", transition.c_str(), change.c_str(), tally.good,
                   tally.refused, tally.wrong);
      sum = {sum.good + tally.good, sum.refused + tally.refused, sum.wrong + tally.wrong};
    }
  std::fprintf(out, "%zu cases: %d good, %d refused, %d wrong\n", cases.size(), sum.good, sum.refused,
               sum.wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace flotilla::test

int main(int argc, char** argv) {
  using namespace flotilla;
  test::Options options;
  CLI::App program("Resumes runs with other strategies, decks and numbers of workers; on five ranks");
  program.add_flag("--all", options.all, "every case, instead of some that are drawn");
  program.add_option("--draw", options.draw, "how many are drawn");
  program.add_option("--seed", options.seed, "of the draw; left out: the time's");
  program.add_option("--only", options.only, "cases whose words have these");
  CLI11_PARSE(program, argc, argv);
  mpi::Environment environment(argc, argv);
  try {
    test::Matrix matrix;
    if (matrix.world().size() < 5) throw std::runtime_error("start it on five ranks: mpirun -n 5 …");
    auto seed = static_cast<std::int64_t>(options.seed == 0 ? std::random_device()() : options.seed);
    matrix.world().broadcast(std::span(&seed, 1));
    options.seed = static_cast<std::uint32_t>(seed);
    // Rank 0 speaks; what the runs report is not shown.
    std::FILE* const out = matrix.world().is_root() ? fdopen(dup(1), "w") : std::fopen("/dev/null", "w");
    const int nothing = open("/dev/null", O_WRONLY);
    dup2(nothing, 1);
    const int exit_code = test::work(matrix, options, out);
    std::fflush(out);
    return exit_code;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "resume_matrix: %s\n", error.what());
    mpi::abort_job(2);
  }
}
