// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <span>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/data/loader.hpp"
#include "src/data/mixup.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/print.hpp"
#include "src/observe/stopwatch.hpp"
#include "src/train/inflated_copies.hpp"
#include "src/train/run_data.hpp"
#include "src/train/shard_indexes.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t most_classes =
    16777216;  ///< The largest model.classes: a list's labels are not checked
constexpr std::int64_t batch_of_list = 32;

/// The configuration that a deck would give.
Config config_of(const BenchInputArguments& arguments) {
  Config config;
  config.data.kind = DataKind::image_list;
  config.data.train = {
      .given = true, .images = {}, .labels = {}, .path = arguments.list, .root = arguments.root};
  config.data.image_size = arguments.size;
  config.data.short_side = arguments.size;
  config.data.resize_filter = arguments.filter;
  config.data.threads = arguments.threads;
  config.device.kind = arguments.device;
  config.model.classes = most_classes;
  config.train.batch_size = batch_of_list;
  return config;
}

/// Seconds that this rank took for `samples`.
struct Rate {
  std::int64_t samples = 0;
  std::int64_t replaced = 0;  ///< Samples that could not be read
  double seconds = 0.0;
  bool bytes = false;  ///< Samples are bytes, not floats
};

Rate take(Loader& loader, std::int64_t batch, double seconds, std::int64_t samples) {
  Rate rate;
  const std::int64_t begin = trace::now_ns();
  do {
    const Batch& batch_taken = loader.next();
    rate.bytes = !batch_taken.bytes.pixels.empty();
    rate.replaced += batch_taken.replaced;
    rate.samples += batch;
    rate.seconds = flotilla::seconds(trace::now_ns() - begin);
  } while (samples > 0 ? rate.samples < samples : rate.seconds < seconds);
  return rate;
}

}  // namespace

int bench_input(const BenchInputArguments& arguments, const mpi::Communicator& world,
                FailureHandler& failure) {
  Config config = arguments.deck.empty()
                      ? config_of(arguments)
                      : load_deck_everywhere(arguments.deck, arguments.overrides, world).config;
  config.data.validation = {};  // it is not read
  agree(world, [&] {
    if (world.is_root()) check_outputs({arguments.json}, config, config.data.train, {arguments.deck});
  });
  const mpi::Communicator host = world.split_by_host();
  std::unique_ptr<Dataset> data;
  Sharding sharding;
  if (arguments.no_decode && !config.data.has_images())
    throw AgreedFailure(cat("--no-decode reads images, and data.kind = \"", config.data.kind, "\" has none"),
                        exit_user_error);
  const std::vector<mpi::Place> places = mpi::find_topology(world);
  check_data_files_on_hosts(config, false, world, places);
  mpi::Watchdog watchdog(0, [](const std::string&) {});
  const InflatedCopies copies(config.data, false, world, host, places, watchdog);
  DatasetUse use = use_of(config.model);
  use.ranks_on_host = host.size();
  use.decode = !arguments.no_decode;
  use.inflated = copies.handles;
  read_together(config, use, world, places, watchdog);
  agree(world, [&] {
    data = open_dataset(config.data, config.data.train, config.model.classes,
                        static_cast<std::uint64_t>(config.run.seed), use);
    Config fitting = config;
    if (arguments.deck.empty())
      fitting.train.batch_size = std::clamp<std::int64_t>(data->size() / world.size(), 1, batch_of_list);
    check_images(config.train.cutmix, data->sample_shape());
    sharding = assign_shards(make_sharding(fitting, data->size(), world.size()), *data, config.data.deal);
  });
  LoaderOptions options = loader_options(config.data);
  options.reader = {.number = host.rank(), .count = host.size()};
  options.mixup = config.train.mixup;
  options.cutmix = config.train.cutmix;
  options.bytes = config.device.kind != DeviceKind::cpu;
  const Sampler sampler(static_cast<std::uint64_t>(config.run.seed), sharding);
  const Rate mine = end_job_on_failure(failure, [&] {
    const auto loader = make_training_loader(*data, sampler, world.rank(), {}, options);
    // Batches that were prefetched at the start are not counted, those at the end are missing.
    take(*loader, sharding.batch, 0.1 * arguments.seconds, sharding.batch * (options.prefetch + 1));
    return take(*loader, sharding.batch, arguments.seconds, arguments.images);
  });
  std::array<double, 3> sums{static_cast<double>(mine.samples) / mine.seconds,
                             static_cast<double>(mine.samples), static_cast<double>(mine.replaced)};
  world.all_reduce(std::span<double>(sums));
  agree(world, [&] {
    if (!world.is_root()) return;
    const std::string unit = data->slots() > 0 ? "samples" : "images";
    print_line(data->description());
    const char* const form = arguments.no_decode ? "files" : mine.bytes ? "bytes" : "floats";
    print_line(fmt::format("{} x {}, batch {}, {:.0f} {} as {}, {:.2f} s", mpi::counted(world.size(), "rank"),
                           mpi::counted(config.data.threads, "thread"), sharding.batch, sums[1], unit, form,
                           mine.seconds));
    print_figures({{"samples_per_s", sums[0]}},
                  sums[2] > 0.0 ? fmt::format("{:.0f} {} could not be read", sums[2], unit) : "");
    print_line(fmt::format("{:.1f} {}/s", sums[0], unit));
    const nlohmann::ordered_json json{{"data", data->description()},
                                      {"workers", world.size()},
                                      {"threads", config.data.threads},
                                      {"sample_shape", data->sample_shape().text()},
                                      {"form", form},
                                      {unit, sums[1]},
                                      {"seconds", mine.seconds},
                                      {unit + "_per_s", sums[0]}};
    hand_over(json.dump(2), arguments.json, arguments.text);
  });
  return exit_done;
}

Subcommand bench_input_command() {
  return SubcommandOf<BenchInputArguments>{
      .name = "bench input",
      .help = "Training samples per second that the loader hands over, of a list of images or of a deck",
      .add_options =
          [](CLI::App& command, BenchInputArguments& arguments, Positionals& positionals) {
            positionals.add_file(command, "DECK", "TOML file whose training data to read; not with --list",
                                 false);
            positionals.add_overrides(command);
            CLI::Option* list =
                command.add_option("--list", arguments.list, "List of images: path, white space, label");
            command
                .add_option("--root", arguments.root,
                            "Folder that the list's paths begin at (default: by its name)")
                ->needs(list);
            command.add_option("--threads", arguments.threads, "Threads of each rank (1)")
                ->check(CLI::Range(1, 1024))
                ->needs(list);
            command.add_option("--size", arguments.size, "Height and width of a sample (224)")
                ->check(CLI::Range(1, 16384))
                ->needs(list);
            command
                .add_option_function<std::string>(
                    "--filter",
                    [&arguments](const std::string& word) { arguments.filter = choice<ResizeFilter>(word); },
                    "bilinear or antialias (bilinear)")
                ->check(CLI::IsMember({"bilinear", "antialias"}))
                ->needs(list);
            command
                .add_option_function<std::string>(
                    "--device",
                    [&arguments](const std::string& word) { arguments.device = choice<DeviceKind>(word); },
                    "For whose memory: cuda and reference take bytes where samples are bytes (cpu)")
                ->check(CLI::IsMember({"cpu", "cuda", "reference"}))
                ->needs(list);
            command.add_flag("--no-decode", arguments.no_decode,
                             "Read the images, but do not decode them: what disk and file system allow");
            CLI::Option* seconds =
                command.add_option("--seconds", arguments.seconds, "How long to measure (5)");
            seconds->check(CLI::PositiveNumber);
            command
                .add_option("--images", arguments.images, "How many images to measure, instead of seconds")
                ->check(CLI::Range(1, 1000000000))
                ->excludes(seconds);
            command.add_option("--json", arguments.json, "File for the figures as JSON");
          },
      .take_positionals =
          [](BenchInputArguments& arguments, Positionals& positionals) {
            arguments.deck = positionals.take_deck(false);
            arguments.overrides = positionals.overrides;
            if (arguments.list.empty() == arguments.deck.empty())
              throw UserError("bench input reads the images of a DECK or of a --list FILE; give one of them");
            if (!arguments.list.empty() && !arguments.overrides.empty())
              throw UserError(
                  cat(arguments.overrides.front(), " needs a DECK; beside --list there are options"));
          },
      .run_on_ranks = bench_input,
  };
}

}  // namespace flotilla
