// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/commands/bench.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/files/file.hpp"
#include "src/forecast/forecast.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/strategy/buckets.hpp"

namespace flotilla {

namespace {

using nlohmann::ordered_json;

struct ForecastArguments {
  std::string deck;
  std::vector<std::string> overrides;
  std::vector<int> hosts;
  std::vector<int> ranks_per_host;
  std::vector<double> network;        ///< Microseconds, Gbit/s, both_ways; empty: not known
  std::vector<std::int64_t> periods;  ///< Of local SGD
  std::vector<double> bucket_mb;      ///< Empty: the deck's
  // JSON files of benchmarks; empty: they run here.
  std::string step;
  std::vector<std::string> all_reduce;
  std::string input;
  std::string json;  ///< File for the table as JSON; empty: none
};

struct Benchmarks {
  ordered_json step;
  std::vector<ordered_json> all_reduce;
  ordered_json input;
};

/// The parts of a step's mean time: of a rank's own work, of waiting for the slowest rank, for communication
/// and for input, which is read ahead, and of saving.
constexpr std::array<const char*, 5> part_names = {"compute", "slowest", "exposed", "input", "saving"};

struct ForecastRow {
  RankGrid grid;
  std::string strategy;
  double batch;                                  ///< Samples of a step over all workers
  std::array<double, part_names.size()> part_s;  ///< By part_names

  double step_s() const { return std::accumulate(part_s.begin(), part_s.end(), 0.0); }
  double samples_per_s() const { return batch / step_s(); }
  const char* bound_by() const {
    return part_names[static_cast<std::size_t>(std::ranges::max_element(part_s) - part_s.begin())];
  }
};

ordered_json parsed(const std::string& text, const std::string& file) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (json.is_discarded()) throw UserError(cat(file, " is no JSON file of flotilla bench"));
  return json;
}

/// Collective. Rank 0 has the result: the files that are given, else what is measured here.
Benchmarks read_or_measure(const ForecastArguments& arguments, const mpi::Communicator& world,
                           FailureHandler& failure) {
  Benchmarks found;
  const auto read = [](const std::string& file) {
    return file.empty() ? ordered_json() : parsed(File::open(file).text(), file);
  };
  agree(world, [&] {
    if (!world.is_root()) return;
    found = {.step = read(arguments.step), .all_reduce = {}, .input = read(arguments.input)};
    for (const std::string& file : arguments.all_reduce) found.all_reduce.push_back(read(file));
  });
  std::string text = "[]";
  std::vector<std::string> overrides = arguments.overrides;
  overrides.emplace_back("strategy.kind=all-reduce");
  if (arguments.step.empty()) {
    bench_step({.deck = arguments.deck, .overrides = overrides, .text = &text}, world, failure);
    found.step = parsed(text, "");
  }
  if (arguments.all_reduce.empty() && world.size() > 1) {
    constexpr std::size_t most = std::size_t{4} << 20;  // larger ones take in proportion
    bench_all_reduce({.max_bytes = most, .in_place = true, .text = &text}, world);
    found.all_reduce.push_back(parsed(text, ""));
  }
  if (arguments.input.empty()) {
    bench_input({.deck = arguments.deck, .overrides = overrides, .seconds = 2.0, .text = &text}, world,
                failure);
    found.input = parsed(text, "");
  }
  return found;
}

/// The forecasts of a deck by what benchmarks have measured.
class Forecaster {
 public:
  Forecaster(const Config& config, const Benchmarks& measured, const ForecastArguments& arguments)
      : config_(config), arguments_(arguments), step_(measured.step), own_s_(step_.at("own_us")) {
    for (auto& rank : own_s_) {
      if (rank.empty() || rank.size() != own_s_.front().size())
        throw UserError("the file of bench step has no steps, or not equally many of each rank, in own_us");
      for (double& each : rank) each *= 1e-6;
    }
    const std::string_view wire = word(config.reduction.wire);
    for (const ordered_json& file : measured.all_reduce)
      for (const ordered_json& row : file)
        if (row.at("communicators") == 1 && row.at("in_place") == true &&
            (row.at("wire") == wire || row.at("algorithm") == "shared-memory"))
          interconnect_.measured.push_back({.algorithm = row.at("algorithm"),
                                            .hosts = row.at("hosts"),
                                            .ranks = row.at("ranks"),
                                            .bytes = row.at("bytes"),
                                            .seconds = row.at("time_us").get<double>() * 1e-6});
    if (!arguments.network.empty()) {
      interconnect_.latency_s = arguments.network[0] * 1e-6;
      interconnect_.bytes_per_s = arguments.network[1] * 1e9 / 8;
      if (arguments.network.size() > 2) interconnect_.both_ways = arguments.network[2];
    }
    interconnect_.wire_share =
        static_cast<double>(mpi::encoded_bytes(config.reduction.wire, mpi::scale_block)) /
        static_cast<double>(mpi::scale_block * sizeof(float));
    for (const ordered_json& size : step_.at("tensors")) layout_.add("", {size}, ParameterKind::weight);
    const ordered_json& input = measured.input;
    const char* const rate = input.contains("images_per_s") ? "images_per_s" : "samples_per_s";
    input_per_s_ = input.at(rate).get<double>() / input.at("workers").get<double>();
    const int workers = step_.at("workers");
    const int hosts = step_.at("hosts");
    const auto sum_s = [&](double size) {
      return all_reduce_s(interconnect_, "mpi", {hosts, workers / hosts}, size);
    };
    wake_s_ = std::max(0.0, step_.at("step_mean_us").get<double>() * 1e-6 - slowest_s(own_s_, workers, 1) -
                                exposed_s(buckets(config.reduction.bucket_mb),
                                          step_.at("backward_us").get<double>() * 1e-6, sum_s));
    if (workers == 1) wake_s_ = 0.0;
  }

  std::vector<ForecastRow> rows(const RankGrid& grid) const {
    std::vector<ForecastRow> rows;
    const double bytes = static_cast<double>(leading() + layout_.size()) * sizeof(float);
    std::vector<std::string> algorithms = {"mpi"};
    if (grid.hosts > 1 && grid.ranks_per_host > 1) algorithms.emplace_back("hierarchical");
    const std::vector<double> sizes =
        arguments_.bucket_mb.empty() ? std::vector{config_.reduction.bucket_mb} : arguments_.bucket_mb;
    const bool overlaps = config_.all_reduce() == nullptr || config_.all_reduce()->overlap;
    for (const std::string& algorithm : algorithms) {
      const auto sum_s = [&](double size) { return all_reduce_s(interconnect_, algorithm, grid, size); };
      const double backward_s = overlaps ? measured_s("backward_us", grid.ranks()) : 0.0;
      for (const double size : sizes)
        rows.push_back(row(grid, fmt::format("{}, buckets of {:g} MiB", algorithm, size), grid.ranks(), 1,
                           exposed_s(buckets(size), backward_s, sum_s)));
      for (const std::int64_t period : arguments_.periods)
        rows.push_back(row(grid, cat(algorithm, ", local SGD, period ", period), grid.ranks(), period,
                           sum_s(bytes) / static_cast<double>(period)));
    }
    if (grid.ranks() % 2 != 0) return rows;
    const int servers = grid.ranks() / 2;
    const double update_s = measured_s("optimizer_us", servers);
    rows.push_back(row(grid, cat("synchronous servers, ", servers), servers, 1,
                       exchange_s(interconnect_, grid, bytes) + update_s / servers - update_s));
    return rows;
  }

  /// Seconds of an epoch and of the run.
  std::pair<double, double> epoch_and_run_s(const ForecastRow& row) const {
    const double of_epoch = std::ceil(step_.at("samples").get<double>() / row.batch);
    double steps = std::numeric_limits<double>::infinity();
    if (config_.train.epochs > 0) steps = static_cast<double>(config_.train.epochs) * of_epoch;
    if (config_.train.steps > 0) steps = std::min(steps, static_cast<double>(config_.train.steps));
    return {of_epoch * row.step_s(), steps * row.step_s()};
  }

  double host_bytes(const ForecastRow& row) const {
    return row.grid.ranks_per_host * step_.at("memory_bytes").get<double>();
  }

 private:
  std::int64_t leading() const { return step_.at("leading_floats"); }

  /// Bytes.
  std::vector<double> buckets(double mebibytes) const {
    std::vector<double> sizes;
    for (const Bucket& bucket : cut_buckets(layout_, leading(), bucket_bytes(mebibytes),
                                            bucket_bytes(config_.reduction.last_bucket_mb)))
      sizes.push_back(static_cast<double>(bucket.end - bucket.begin) * sizeof(float));
    return sizes;
  }

  /// Samples of a worker's step.
  double batch(int workers) const {
    const TrainConfig& train = config_.train;
    return train.global_batch_size > 0 ? static_cast<double>(train.global_batch_size) / workers
                                       : static_cast<double>(train.batch_size * train.accumulate_steps);
  }
  /// Samples of a worker's step in proportion to those that were measured; so is the time to compute them.
  double scale(int workers) const {
    return batch(workers) * step_.at("workers").get<double>() / step_.at("global_batch_size").get<double>();
  }
  double measured_s(const char* phase, int workers) const {
    return step_.at(phase).get<double>() * 1e-6 * scale(workers);
  }

  ForecastRow row(const RankGrid& grid, std::string strategy, int workers, std::int64_t period,
                  double communication) const {
    const double exposed = communication + (grid.ranks() > 1 ? wake_s_ / static_cast<double>(period) : 0.0);
    const double compute = scale(workers) * mean_s(own_s_, workers);
    const double slowest = scale(workers) * slowest_s(own_s_, workers, period) / static_cast<double>(period);
    // Reading has the cores to itself where no rank computes, and elsewhere if there are enough of them.
    const double threads = step_.at("threads").get<double>() + static_cast<double>(config_.data.threads);
    const bool enough = grid.ranks_per_host * threads <= step_.at("cores").get<double>();
    const double hidden = slowest + exposed - (enough ? 0.0 : compute);
    const double input = std::max(0.0, batch(workers) / input_per_s_ - hidden);
    double saving = 0.0;
    if (const double saves = step_.at("saves"); saves > 0.0) {
      const double stall_s = measured_s("checkpoint_stall_us", workers) / scale(workers) *
                             step_.at("steps").get<double>() / saves;
      const CheckpointConfig& config = config_.checkpoint;
      if (config.every > 0) saving += stall_s / static_cast<double>(config.every);
      if (config.every_s > 0.0) saving += stall_s * (slowest + exposed + input) / config.every_s;
    }
    return {grid,
            std::move(strategy),
            batch(workers) * workers,
            {compute, slowest - compute, exposed, input, saving}};
  }

  const Config& config_;
  const ForecastArguments& arguments_;
  const ordered_json& step_;
  MeasuredSteps own_s_;
  Interconnect interconnect_;
  ArenaLayout layout_;
  double input_per_s_ = 0.0;  ///< Of a worker
  /// What a synchronisation takes in a step beyond the all-reduce alone: ranks that wait have given their
  /// cores away, where others want them
  double wake_s_ = 0.0;
};

void print_forecast(const Forecaster& forecaster, const ForecastArguments& arguments) {
  ordered_json json = ordered_json::array();
  std::string heading = fmt::format("{:>5}{:>6}  {:<36}{:>10}", "hosts", "ranks", "strategy", "step ms");
  for (const char* const name : part_names) heading += fmt::format("{:>10}", name);
  print_line(cat(heading, "   samples/s      epoch        run  of a host  bound by"));
  for (const int hosts : arguments.hosts)
    for (const int ranks_per_host : arguments.ranks_per_host) {
      const std::vector<ForecastRow> rows = forecaster.rows({hosts, ranks_per_host});
      for (const ForecastRow& row : rows) {
        const auto [epoch_s, run_s] = forecaster.epoch_and_run_s(row);
        const double bytes = forecaster.host_bytes(row);
        std::string line = fmt::format("{:>5}{:>6}  {:<36}{:>10.3f}", hosts, row.grid.ranks(), row.strategy,
                                       row.step_s() * 1e3);
        ordered_json& object = json.emplace_back(ordered_json{{"hosts", hosts},
                                                              {"ranks", row.grid.ranks()},
                                                              {"strategy", row.strategy},
                                                              {"step_us", row.step_s() * 1e6},
                                                              {"samples_per_s", row.samples_per_s()},
                                                              {"epoch_s", epoch_s},
                                                              {"run_s", run_s},
                                                              {"host_memory_bytes", bytes},
                                                              {"bound_by", row.bound_by()}});
        for (std::size_t i = 0; i < part_names.size(); ++i) {
          line += fmt::format("{:>10.3f}", row.part_s[i] * 1e3);
          object[cat(part_names[i], "_us")] = row.part_s[i] * 1e6;
        }
        print_line(fmt::format("{}{:>12.0f}{:>11}{:>11}{:>11}  {}", line, row.samples_per_s(),
                               duration_text(epoch_s),
                               std::isfinite(run_s) ? duration_text(run_s) : "endless",
                               bytes_text(std::llround(bytes)), row.bound_by()));
      }
      const ForecastRow& best = std::ranges::max(rows, {}, &ForecastRow::samples_per_s);
      print_line(cat("most samples/s on ", mpi::counted(best.grid.ranks(), "rank"), ": ", best.strategy));
    }
  hand_over(json.dump(2), arguments.json, nullptr);
}

/// Collective. `flotilla forecast`: what training by a deck may take on a machine.
int forecast(const ForecastArguments& arguments, const mpi::Communicator& world, FailureHandler& failure) {
  const Config config = load_deck_everywhere(arguments.deck, arguments.overrides, world).config;
  agree(world, [&] {
    std::vector<std::string> inputs = arguments.all_reduce;
    inputs.insert(inputs.end(), {arguments.deck, arguments.step, arguments.input});
    if (world.is_root()) check_outputs({arguments.json}, config, config.data.train, inputs);
  });
  const Benchmarks measured = read_or_measure(arguments, world, failure);
  agree(world, [&] {
    if (!world.is_root()) return;
    try {
      print_forecast(Forecaster(config, measured, arguments), arguments);
    } catch (const nlohmann::json::exception& error) {
      throw UserError(cat("a JSON file is not what bench step, all-reduce and input of this version write: ",
                          error.what()));
    }
  });
  return exit_done;
}

}  // namespace

Subcommand forecast_command() {
  return SubcommandOf<ForecastArguments>{
      .name = "forecast",
      .help = "What to expect of a machine: times of training on numbers of hosts and ranks",
      .add_options =
          [](CLI::App& command, ForecastArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "DECK", "TOML file of the run, whose folder is not touched", true);
            positionals.add_overrides(command);
            const auto numbers = [&command](const char* name, auto& values, const char* help) {
              return command.add_option(name, values, help)->delimiter(',')->check(CLI::Range(1e-6, 30000.0));
            };
            numbers("--hosts", arguments.hosts, "Numbers of hosts: 1,2,4")->required();
            numbers("--ranks-per-host", arguments.ranks_per_host, "Ranks on each: 1,2")->required();
            numbers("--network", arguments.network,
                    "Of each host: latency in µs, Gbit/s, and how many times as long messages take both ways "
                    "at a time (1), as 30,10,2")
                ->expected(2, 3);
            numbers("--periods", arguments.periods, "Also local SGD with these periods: 8,64");
            numbers("--bucket-mb", arguments.bucket_mb, "Sizes of buckets to compare, MiB (the deck's)");
            command.add_option("--step", arguments.step, "JSON file of bench step (it runs here)");
            command.add_option("--all-reduce", arguments.all_reduce,
                               "JSON files of bench all-reduce (it runs here, on several ranks)");
            command.add_option("--input", arguments.input, "JSON file of bench input (it runs here)");
            command.add_option("--json", arguments.json, "File for the table as JSON");
          },
      .take_positionals =
          [](ForecastArguments& arguments, Positionals& positionals) {
            arguments.deck = positionals.take_deck(true);
            arguments.overrides = positionals.overrides;
          },
      .run_on_ranks = forecast,
  };
}

}  // namespace flotilla
