// SPDX-License-Identifier: Apache-2.0
#include "src/train/found_scaling.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/job/failure.hpp"
#include "src/observe/print.hpp"
#include "src/observe/progress_line.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t max_groups = 1024;
constexpr std::int64_t blocks = 256;  // parts of the samples that one rank adds up: for any number of ranks

/// Sums of numbers, and of their squares, less that of the first sample, by blocks of samples and groups.
class ScalingSums {
 public:
  /// @param values of a sample  @param groups of them, each of as many that lie one after another
  ScalingSums(std::int64_t values, std::int64_t groups)
      : each_(static_cast<std::size_t>(values / std::max<std::int64_t>(groups, 1))),
        groups_(static_cast<std::size_t>(groups)),
        sums_(2 * static_cast<std::size_t>(blocks) * groups_) {}

  void set_first(std::span<const double> sample) {
    for (std::size_t g = 0; g < groups_; ++g) first_.push_back(sample[g * each_]);
  }
  void add(std::int64_t block, std::span<const double> sample) {
    double* sums = &sums_[2 * static_cast<std::size_t>(block) * groups_];
    for (std::size_t g = 0; g < groups_; ++g, sums += 2)
      for (const double value : sample.subspan(g * each_, each_)) {
        sums[0] += value - first_[g];
        sums[1] += (value - first_[g]) * (value - first_[g]);
      }
  }
  std::span<double> sums() { return sums_; }

  /// The mean and deviation of each group in the place of what is "auto".
  void write(std::int64_t samples, std::vector<double>& mean, std::vector<double>& deviation) const {
    const double count = static_cast<double>(samples) * static_cast<double>(each_);
    std::vector<double> means;
    std::vector<double> deviations;
    for (std::size_t g = 0; g < groups_; ++g) {
      double sum = 0.0;
      double squares = 0.0;
      for (std::size_t k = g; k < sums_.size() / 2; k += groups_) {
        sum += sums_[2 * k];
        squares += sums_[2 * k + 1];
      }
      const double spread = std::sqrt(std::max(0.0, (squares - sum * sum / count) / count));
      means.push_back(nine_digits(first_[g] + sum / count));
      deviations.push_back(spread > 0.0 ? nine_digits(spread) : 1.0);
    }
    if (is_auto(mean)) mean = means;
    if (is_auto(deviation)) deviation = deviations;
  }

 private:
  static double nine_digits(double value) { return std::stod(fmt::format("{:.9g}", value)); }

  std::size_t each_;
  std::size_t groups_;
  std::vector<double> first_{};
  std::vector<double> sums_;
};

/// Groups with a mean of their own.
std::int64_t groups_of(const Dataset& training) {
  const std::int64_t groups = training.sample_shape()[0];
  return groups > max_groups ? 1 : groups;
}

}  // namespace

bool wants_scaling(const DataConfig& data) {
  return is_auto(data.input_mean) || is_auto(data.input_std) || is_auto(data.target_mean) ||
         is_auto(data.target_std);
}

void find_scaling(DataConfig& data, const Dataset& training, const mpi::Communicator& workers,
                  mpi::Watchdog& watchdog) {
  const std::int64_t samples = training.size();
  std::vector<double> inputs(static_cast<std::size_t>(training.sample_shape().size()));
  std::vector<double> targets(static_cast<std::size_t>(training.target_width()));
  ScalingSums of_inputs(std::ssize(inputs), groups_of(training));
  ScalingSums of_targets(std::ssize(targets), std::ssize(targets));
  const std::int64_t values = samples * (std::ssize(inputs) + std::ssize(targets));
  if (workers.is_root())
    print_error_line(cat("flotilla: reads all ", samples, " samples of data.train once, ", values,
                         " numbers, for scalings that are \"auto\""));
  agree(workers, after_long_work(workers, [&] {
          mpi::CpuProgressScope working(watchdog, "finding the scaling of the data");
          ProgressLine progress("finding the scaling of the data", samples, Amount::items);
          training.read_stored(0, inputs, targets);
          of_inputs.set_first(inputs);
          of_targets.set_first(targets);
          for (std::int64_t block = workers.rank(); block < blocks; block += workers.size()) {
            const std::int64_t end = samples * (block + 1) / blocks;
            progress.at(samples * block / blocks);
            for (std::int64_t i = samples * block / blocks; i < end; ++i) {
              training.read_stored(i, inputs, targets);
              const auto finite = [](double value) { return std::isfinite(value); };
              if (!std::ranges::all_of(inputs, finite) || !std::ranges::all_of(targets, finite))
                throw UserError(
                    cat("sample ", i, " of data.train (", training.description(),
                        "), counted from 0, has a number that is not finite: correct it or leave it out"));
              of_inputs.add(block, inputs);
              of_targets.add(block, targets);
            }
          }
        }));
  workers.all_reduce(of_inputs.sums());
  workers.all_reduce(of_targets.sums());
  of_inputs.write(samples, data.input_mean, data.input_std);
  if (!targets.empty()) of_targets.write(samples, data.target_mean, data.target_std);
  data.found.input_mean = data.input_mean;
  data.found.input_std = data.input_std;
  data.found.target_mean = data.target_mean;
  data.found.target_std = data.target_std;
}

std::vector<std::string> scale_warnings(const DataConfig& data, const Dataset& training) {
  constexpr double large = 100.0;
  std::vector<std::string> warnings;
  if (!data.keys().numbers || training.facts().number_type == "uint8") return warnings;
  std::vector<double> inputs(static_cast<std::size_t>(training.sample_shape().size()));
  std::vector<double> targets(static_cast<std::size_t>(training.target_width()));
  double of_inputs = 0.0;
  double of_targets = 0.0;
  const std::int64_t read = std::min(training.size(), identified_samples);
  for (std::int64_t k = 0; k < read; ++k) {
    training.read_stored(k * training.size() / read, inputs, targets);
    for (const double value : inputs)
      of_inputs += value * value / static_cast<double>(read * std::ssize(inputs));
    for (const double value : targets)
      of_targets += value * value / static_cast<double>(read * std::ssize(targets));
  }
  const auto warn = [&](const char* what, const char* key, const std::vector<double>& mean,
                        const std::vector<double>& deviation, double squares) {
    const double size = std::sqrt(squares);
    if (!mean.empty() || !deviation.empty() || (size <= large && (size >= 1.0 / large || size == 0.0)))
      return;
    warnings.push_back(
        fmt::format("the {} of data.train are far from 1 ({:.2g}, root mean square of {} samples), "
                    "and nothing scales them: set data.{}_mean = \"auto\" and data.{}_std = "
                    "\"auto\"",
                    what, size, read, key, key));
  };
  warn("inputs", "input", data.input_mean, data.input_std, of_inputs);
  if (!targets.empty()) warn("targets", "target", data.target_mean, data.target_std, of_targets);
  return warnings;
}

}  // namespace flotilla
