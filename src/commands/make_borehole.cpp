// SPDX-License-Identifier: Apache-2.0
#include "src/commands/make_borehole.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "src/checkpoint/write_file.hpp"
#include "src/commands/array_statistics.hpp"
#include "src/commands/make_data.hpp"
#include "src/commands/output_files.hpp"
#include "src/data/borehole.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

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

std::string make_borehole_data(const MakeBoreholeArguments& arguments) {
  const auto seed = static_cast<std::uint64_t>(arguments.seed);
  std::string said = write_borehole(seed, 0, arguments.rows, arguments.output);
  if (arguments.validation_rows > 0)
    said += '\n' + write_borehole(seed, arguments.rows, arguments.validation_rows,
                                  validation_name(arguments.output));
  return said;
}

}  // namespace flotilla
