// SPDX-License-Identifier: Apache-2.0
#include "src/commands/find_rate.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>

#include "kernels/error.hpp"
#include "src/commands/job_scopes.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/start_up.hpp"
#include "src/commands/subcommand.hpp"
#include "src/files/atomic_file.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/print.hpp"
#include "src/train/resume.hpp"
#include "src/train/trainer.hpp"

namespace flotilla {

namespace {

constexpr double kept_of_average = 0.9;
constexpr double max_times_lowest = 4.0;
constexpr std::size_t shown_points = 24;
constexpr double bar_cells = 40.0;

/// The deck's training with a learning rate that grows by one factor in each step: a milestone for each.
void make_range_test(const FindRateArguments& arguments, Config& config) {
  config.schedule = {};
  config.schedule.kind = ScheduleKind::piecewise;
  config.schedule.learning_rate = arguments.from;
  config.schedule.factor =
      std::pow(arguments.to / arguments.from, 1.0 / static_cast<double>(arguments.steps - 1));
  config.train.epochs = 0;
  config.train.steps = arguments.steps;
  config.train.seconds = 0.0;
  config.run.log_every = 1;  // all workers know each loss
  config.run.files.trace = false;
}

std::vector<double> epochs_of_steps(const Sharding& sharding, std::int64_t steps) {
  const Sampler sampler(0, sharding);
  std::vector<double> epochs;
  Position position;
  for (std::int64_t step = 1; step < steps; ++step) {
    position = sampler.after(position);
    epochs.push_back(epochs_at(sharding, position));
  }
  return epochs;
}

/// The mean over the workers where each knows its own loss.
double loss_of_all(const StepOutcome& outcome, const mpi::Communicator& workers) {
  if (outcome.all_workers) return outcome.loss;
  std::array<double, 2> sums{outcome.samples * outcome.loss, outcome.samples};
  workers.all_reduce(std::span<double>(sums));
  return sums[0] / std::max(1.0, sums[1]);
}

void print_curve(const std::vector<RatePoint>& points) {
  const auto [low, high] = std::ranges::minmax(points, {}, &RatePoint::smoothed);
  const double range = std::max(high.smoothed - low.smoothed, 1e-300);
  const std::size_t stride = std::max<std::size_t>(1, points.size() / shown_points);
  print_line(fmt::format("{:>13}  {:>12}  {}", "learning rate", "loss", "average of the last losses"));
  for (std::size_t i = 0; i < points.size(); i += stride)
    print_line(fmt::format(
        "{:>13.3g}  {:>12.5g}  {:>10.5g} {}", points[i].rate, points[i].loss, points[i].smoothed,
        std::string(static_cast<std::size_t>(bar_cells * (points[i].smoothed - low.smoothed) / range), '#')));
}

void report_range_test(const FindRateArguments& arguments, const RateCurve& curve, double of_batch) {
  print_curve(curve.points());
  if (!arguments.output.empty()) {
    std::string text = "step,learning_rate,loss,smoothed\n";
    for (std::size_t i = 0; i < curve.points().size(); ++i)
      text += fmt::format("{},{},{},{}\n", i + 1, curve.points()[i].rate / of_batch, curve.points()[i].loss,
                          curve.points()[i].smoothed);
    write_text_file_atomically(arguments.output, text);
  }
  const auto proposal = curve.proposal();
  if (!proposal) {
    print_line(cat("no proposal: the loss does not fall between ", arguments.from, " and ", arguments.to,
                   "; try other --from and --to, or more --steps"));
    return;
  }
  if (of_batch != 1.0)
    print_line(fmt::format(
        "the rates above are {:.4g} times those of the deck, as schedule.scale_with_batch says", of_batch));
  print_line(fmt::format("the loss falls most steeply at {:.3g}, and is lowest at {:.3g}",
                         proposal->steepest / of_batch, proposal->lowest / of_batch));
  print_line(fmt::format("proposal: schedule.learning_rate = {:.2g}", proposal->rate / of_batch));
}

/// Collective over the workers. @param config of the range test @param base_batch schedule.base_batch where
/// the deck scales the rate with the batch; 0: it does not
int range_test_worker(const FindRateArguments& arguments, Config& config, std::int64_t base_batch,
                      JobRoles& roles, FailureHandler& failure, mpi::Watchdog& watchdog) {
  const mpi::Communicator& workers = roles.workers();
  const auto staged = stage(config, workers, roles.servers(), watchdog);
  RunParts run(config, {workers, roles.servers(), failure, watchdog}, {});
  config.schedule.milestones = epochs_of_steps(run.data.sharding, arguments.steps);
  std::vector<std::string> warnings;
  load_initial_weights(run, warnings);
  Continuation afresh;
  begin(run, nullptr, afresh);
  Reporter reporter({.folder = "", .rank = workers.rank()});
  for (const std::string& warning : warnings) reporter.warn(warning);
  Trainer trainer({.run = run,
                   .reporter = reporter,
                   .writers = {},
                   .failure = failure,
                   .loading = loader_options(config.data),
                   .build = ""},
                  {});
  RateCurve curve;
  end_job_on_failure(failure, [&] {
    const auto loader = trainer.make_loader();
    bool goes_on = true;
    for (std::int64_t step = 0; goes_on && step < arguments.steps; ++step) {
      const StepOutcome outcome = trainer.step(*loader);
      const double loss = loss_of_all(outcome, workers);
      const double rate = arguments.from * std::pow(config.schedule.factor, static_cast<double>(step));
      if (!outcome.skipped || std::isfinite(loss)) goes_on = curve.add(rate, loss);
    }
    return 0;
  });
  agree(workers, [&] {
    if (!workers.is_root()) return;
    report_range_test(arguments, curve,
                      base_batch > 0 ? static_cast<double>(run.data.sharding.global_batch()) /
                                           static_cast<double>(base_batch)
                                     : 1.0);
  });
  workers.barrier();
  return exit_done;
}

/// Collective. `flotilla find-rate`: a learning-rate range test, which begins as the deck's training does and
/// writes nothing into its folder.
int find_rate(const FindRateArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  LoadedDeck deck = load_deck_everywhere(arguments.deck, arguments.overrides, world);
  agree(world, [&] {
    if (arguments.to <= arguments.from)
      throw UserError(cat("--to must be larger than --from, got ", arguments.to, " and ", arguments.from));
    if (!world.is_root()) return;
    check_outputs({arguments.output}, deck.config, deck.config.data.train, {arguments.deck});
    check_ending(arguments.output, {".csv", ".txt"}, "CSV");
  });
  const std::int64_t base_batch = deck.config.schedule.scale_with_batch ? deck.config.schedule.base_batch : 0;
  make_range_test(arguments, deck.config);
  JobWatchdog job(deck, world, failure);
  JobRoles roles(deck.config, world, failure, job.watchdog());
  if (roles.is_server()) return roles.serve();
  const int code = range_test_worker(arguments, deck.config, base_batch, roles, failure, job.watchdog());
  roles.set_exit_code(code);
  return code;
}

}  // namespace

bool RateCurve::add(double rate, double loss) {
  if (!std::isfinite(loss)) return false;
  average_ = kept_of_average * average_ + (1.0 - kept_of_average) * loss;
  weight_ = kept_of_average * weight_ + (1.0 - kept_of_average);
  const double smoothed = average_ / weight_;
  points_.push_back({rate, loss, smoothed});
  if (points_.size() == 1 || smoothed < lowest_) lowest_ = smoothed;
  return smoothed <= max_times_lowest * lowest_;
}

std::optional<RateCurve::Proposal> RateCurve::proposal() const {
  const std::size_t reach = std::max<std::size_t>(1, points_.size() / 20);
  double steepest_slope = 0.0;
  Proposal found;
  for (std::size_t i = 0; i + 2 * reach < points_.size(); ++i) {
    const RatePoint& from = points_[i];
    const RatePoint& to = points_[i + 2 * reach];
    const double slope = (to.smoothed - from.smoothed) / std::log(to.rate / from.rate);
    if (slope >= steepest_slope) continue;
    steepest_slope = slope;
    found.steepest = points_[i + reach].rate;
  }
  if (steepest_slope == 0.0) return {};
  found.lowest = std::ranges::min(points_, {}, &RatePoint::smoothed).rate;
  found.rate = std::min(found.steepest, found.lowest / 10.0);
  return found;
}

Subcommand find_rate_command() {
  return SubcommandOf<FindRateArguments>{
      .name = "find-rate",
      .help = "Propose a learning rate: train some steps with one that grows",
      .add_options =
          [](CLI::App& command, FindRateArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "DECK", "TOML file of the run, whose folder is not touched", true);
            positionals.add_overrides(command);
            command.add_option("--from", arguments.from, "Learning rate of the first step (1e-6)")
                ->check(CLI::Range(1e-30, 1e30));
            command.add_option("--to", arguments.to, "Learning rate of the last step (10)")
                ->check(CLI::Range(1e-30, 1e30));
            command.add_option("--steps", arguments.steps, "Steps; fewer where the loss explodes (100)")
                ->check(CLI::Range(10, 100000));
            command.add_option("--output", arguments.output, "CSV file for the curve");
          },
      .take_positionals =
          [](FindRateArguments& arguments, Positionals& positionals) {
            arguments.deck = positionals.take_deck(true);
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = find_rate,
  };
}

}  // namespace flotilla
