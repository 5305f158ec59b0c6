// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/compare/plan.hpp"
#include "src/compare/run_figures.hpp"

namespace flotilla {

/// One training of a comparison, as it ended.
struct ComparedTraining {
  std::int64_t seed = 0;
  std::string folder{};
  RunFigures figures{};
  std::string failure{};  ///< "diverged", or why it could not be trained; empty: it was trained to its end
};

/// A row: a run with all its seeds.
struct ComparedRun {
  std::string name;
  std::vector<std::string> set{};  ///< Its overrides
  std::vector<ComparedTraining> trainings{};
};

struct Comparison {
  std::string command;  ///< "mpirun -n 4 flotilla compare …"
  std::string machine;  ///< "AMD EPYC 9R14, 2 of 2 cores, 1 host"
  Equal equal = Equal::samples;
  double seconds = 0.0;  ///< Equal::time
  std::optional<double> target{};
  std::vector<ComparedRun> runs{};
};

/// A mean over seeds.
struct SeedMean {
  double mean = 0.0;
  std::optional<double> standard_error{};  ///< √(Σ (x − mean)² / (n − 1)) / √n; of one value: none
  std::size_t values = 0;
};
SeedMean mean_of(std::span<const double> values);

/// The table as Markdown, its columns padded so that it can be read in a terminal, and the lines around it.
std::string markdown_of(const Comparison& comparison);

/// All figures as JSON (docs/compare.md lists the keys).
std::string json_of(const Comparison& comparison);

}  // namespace flotilla
