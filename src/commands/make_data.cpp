// SPDX-License-Identifier: Apache-2.0
#include "src/commands/make_data.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <numbers>
#include <optional>
#include <span>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/write_checkpoint.hpp"
#include "src/commands/array_statistics.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/data/clicks/synthetic_clicks.hpp"
#include "src/files/atomic_file.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20;

struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

std::string write_rows(const SyntheticClicks& clicks, RowRange rows, const std::string& path,
                       const std::string& truth_path) {
  AtomicFile file(path);
  std::optional<AtomicFile> truth_file;
  if (!truth_path.empty()) truth_file.emplace(truth_path);
  std::string text;
  std::string truths;
  std::int64_t bytes = 0;
  Ceiling ceiling;
  const auto flush = [&] {
    file.append(text);
    bytes += std::ssize(text);
    text.clear();
    if (truth_file) truth_file->append(truths);
    truths.clear();
  };
  ProgressLine progress(cat("writing ", path), rows.end - rows.begin, Amount::items);
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    progress.at(i - rows.begin);
    const SyntheticClicks::Truth truth = clicks.write(i, text);
    ceiling.add(truth);
    if (truth_file) fmt::format_to(std::back_inserter(truths), "{:.8g}\n", truth.probability);
    if (text.size() >= block_bytes) flush();
  }
  flush();
  file.commit();
  if (truth_file) truth_file->commit();
  return fmt::format(
      "{}: {} rows, {:.2f} % positive, {:.1f} MB; the true probabilities reach AUC {:.5f}, log loss {:.5f}",
      path, ceiling.rows(),
      100.0 * static_cast<double>(ceiling.positive()) / static_cast<double>(ceiling.rows()),
      static_cast<double>(bytes) * 1e-6, ceiling.auc(), ceiling.log_loss());
}

/// An input of the borehole function and its range.
struct BoreholeInput {
  const char* name;
  const char* unit;
  double low;
  double high;
};

/// Radius of the borehole and of influence, transmissivity and potentiometric head of the upper and of the
/// lower aquifer, length and hydraulic conductivity of the borehole, with the ranges of Morris, Mitchell &
/// Ylvisaker, Technometrics 35 (1993), 243.
constexpr std::array<BoreholeInput, 8> borehole_inputs = {{{"rw", "m", 0.05, 0.15},
                                                           {"r", "m", 100.0, 50000.0},
                                                           {"Tu", "m²/yr", 63070.0, 115600.0},
                                                           {"Hu", "m", 990.0, 1110.0},
                                                           {"Tl", "m²/yr", 63.1, 116.0},
                                                           {"Hl", "m", 700.0, 820.0},
                                                           {"L", "m", 1120.0, 1680.0},
                                                           {"Kw", "m/yr", 9855.0, 12045.0}}};

/// The flow of water through a borehole that joins two aquifers, m³/yr (Harper & Gupta,
/// Sensitivity/uncertainty analysis of a borehole scenario, ONWI-516, 1983): 2π Tu (Hu − Hl) / (ln(r/rw) (1 +
/// 2 L Tu / (ln(r/rw) rw² Kw) + Tu / Tl)).
/// @param x in the order of borehole_inputs
double borehole_flow(std::span<const double, 8> x) {
  const auto [rw, r, tu, hu, tl, hl, length, kw] =
      std::array<double, 8>{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]};
  const double log_radii = std::log(r / rw);
  const double resistance = 1.0 + 2.0 * length * tu / (log_radii * rw * rw * kw) + tu / tl;
  return 2.0 * std::numbers::pi * tu * (hu - hl) / (log_radii * resistance);
}

/// Writes the inputs of sample i, uniform in their ranges, and returns its flow, that of the inputs as
/// floats: a pure function of (seed, i).
float borehole_sample(std::uint64_t seed, std::int64_t i, std::span<float, 8> inputs) {
  Random random(seed, random_data, static_cast<std::uint64_t>(i));
  std::array<double, 8> x{};
  for (std::size_t k = 0; k < x.size(); ++k) {
    const BoreholeInput& input = borehole_inputs[k];
    inputs[k] = static_cast<float>(input.low + (input.high - input.low) * random.uniform());
    x[k] = static_cast<double>(inputs[k]);
  }
  return static_cast<float>(borehole_flow(x));
}

constexpr std::int64_t block_rows = 65536;

/// Writes `rows` rows from sample `begin` on.
std::string write_borehole(std::uint64_t seed, std::int64_t begin, std::int64_t rows,
                           const std::string& path) {
  constexpr std::size_t width = borehole_inputs.size();
  check_output_file(path, {});
  check_ending(path, {".h5", ".hdf5"}, "an HDF5 file");
  const std::array<CheckpointTensor, 2> arrays = {
      CheckpointTensor{.path = "inputs", .shape = {rows, std::int64_t{width}}},
      CheckpointTensor{.path = "targets", .shape = {rows, 1}}};
  NewFile file(path, arrays);
  ProgressLine progress(fmt::format("writing {}", path), rows, Amount::items);
  Moments moments;
  for (std::int64_t first = 0; first < rows; first += block_rows) {
    const auto count = static_cast<std::size_t>(std::min(block_rows, rows - first));
    std::vector<float> inputs(count * width);
    std::vector<float> targets(count);
    for (std::size_t row = 0; row < count; ++row) {
      const std::int64_t number = first + static_cast<std::int64_t>(row);
      targets[row] =
          borehole_sample(seed, begin + number, std::span(inputs).subspan(row * width).first<width>());
      moments.add({.count = 1, .mean = static_cast<double>(targets[row])});
    }
    file.append(0, std::as_bytes(std::span(inputs)));
    file.append(1, std::as_bytes(std::span(targets)));
    progress.at(first);
  }
  const CheckpointPart written = file.complete(nullptr);
  file.give_name();
  return fmt::format("{}: {} rows, {:.1f} MB; targets: mean {:.6g}, deviation {:.6g}", path, rows,
                     static_cast<double>(written.bytes) * 1e-6, moments.mean, moments.deviation());
}

}  // namespace

std::string validation_name(const std::string& path) {
  std::filesystem::path name(path);
  const std::string ending = name.extension().string();
  return name.replace_extension(".valid" + ending).string();
}

std::string make_criteo_data(const MakeDataArguments& arguments) {
  std::vector<std::string> outputs = {arguments.output, arguments.truth};
  if (arguments.validation_rows > 0)
    for (const std::string& path : {arguments.output, arguments.truth})
      outputs.push_back(path.empty() ? "" : validation_name(path));
  for (const std::string& path : outputs)
    if (std::filesystem::exists(path)) check_output_file(path, {});
  check_outputs(outputs, {});
  const SyntheticClicks clicks(
      {.seed = static_cast<std::uint64_t>(arguments.seed), .vocabulary = arguments.vocabulary});
  std::string said = write_rows(clicks, {0, arguments.rows}, arguments.output, arguments.truth);
  if (arguments.validation_rows > 0) {
    said += '\n';
    said += write_rows(clicks, {arguments.rows, arguments.rows + arguments.validation_rows},
                       validation_name(arguments.output),
                       arguments.truth.empty() ? "" : validation_name(arguments.truth));
  }
  return said;
}

Subcommand make_criteo_command() {
  return SubcommandOf<MakeDataArguments>{
      .name = "make-data criteo",
      .help = "Click logs in Criteo's layout: a label, 13 numbers, 26 categories",
      .add_options =
          [](CLI::App& command, MakeDataArguments& arguments, Positionals& /*positionals*/) {
            const CLI::Range rows(std::int64_t{1}, std::int64_t{1000000000000});
            command.add_option("--rows", arguments.rows, "Lines to write")->required()->check(rows);
            command.add_option("--output", arguments.output, "File to write")->required();
            command
                .add_option("--valid-rows", arguments.validation_rows,
                            "Lines of a second file, for validation: FILE with .valid before its ending")
                ->check(rows);
            command.add_option("--seed", arguments.seed, "Other seeds make other data (1)")
                ->check(CLI::NonNegativeNumber);
            command.add_option("--vocabulary", arguments.vocabulary, "Most categories of a slot (100000)")
                ->check(CLI::Range(std::int64_t{1}, std::int64_t{4294967295}));
            command.add_option("--truth", arguments.truth, "File for the true probability of each line");
          },
      .run_alone = [](const MakeDataArguments& arguments) -> int {
        Console::of_process().use_terminal();
        print_line(make_criteo_data(arguments));
        return exit_done;
      },
  };
}

std::string make_borehole_data(const MakeBoreholeArguments& arguments) {
  const auto seed = static_cast<std::uint64_t>(arguments.seed);
  std::string said = write_borehole(seed, 0, arguments.rows, arguments.output);
  if (arguments.validation_rows > 0)
    said += '\n' + write_borehole(seed, arguments.rows, arguments.validation_rows,
                                  validation_name(arguments.output));
  return said;
}

Subcommand make_borehole_command() {
  return SubcommandOf<MakeBoreholeArguments>{
      .name = "make-data borehole",
      .help = "HDF5 arrays of a function of 8 numbers, the flow through a borehole",
      .add_options =
          [](CLI::App& command, MakeBoreholeArguments& arguments, Positionals& /*positionals*/) {
            const CLI::Range rows(std::int64_t{1}, std::int64_t{1000000000000});
            command.add_option("--rows", arguments.rows, "Samples to write")->required()->check(rows);
            command.add_option("--output", arguments.output, "HDF5 file to write")->required();
            command
                .add_option(
                    "--valid-rows", arguments.validation_rows,
                    "Other samples, of a second file for validation: FILE with .valid before its ending")
                ->check(rows);
            command.add_option("--seed", arguments.seed, "Other seeds make other data (1)")
                ->check(CLI::NonNegativeNumber);
          },
      .run_alone = [](const MakeBoreholeArguments& arguments) -> int {
        print_line(make_borehole_data(arguments));
        return exit_done;
      },
  };
}

}  // namespace flotilla
