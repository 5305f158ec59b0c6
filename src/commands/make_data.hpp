// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

struct MakeDataArguments {
  std::int64_t rows = 0;
  std::int64_t validation_rows = 0;
  std::int64_t seed = 1;
  std::int64_t vocabulary = 100000;  ///< Most categories of a slot
  std::string output{};
  std::string truth{};  ///< File for the true probabilities, a line each; empty: none
};

/// The file of the validation rows, next to the one at `path`: "clicks.valid.tsv" of "clicks.tsv".
std::string validation_name(const std::string& path);

/// `flotilla make-data criteo`: writes synthetic click logs (SyntheticClicks) and returns, for each file, a
/// line with the metrics of predicting the true probabilities. Validation rows go into a second file, with
/// ".valid" before the ending of the name. Files appear whole or not at all. @throws UserError naming the
/// file
std::string make_criteo_data(const MakeDataArguments& arguments);

struct MakeBoreholeArguments {
  std::int64_t rows = 0;
  std::int64_t validation_rows = 0;  ///< 0: no second file
  std::int64_t seed = 1;
  std::string output{};
};

/// `flotilla make-data borehole`: writes an HDF5 file of float32 arrays, /inputs (rows × 8) and /targets
/// (rows × 1), of the borehole function (data/borehole.hpp), and returns, for each file, a line with mean and
/// deviation of the targets. Validation rows, which are none of the first file, go into a second one, with
/// ".valid" before the ending of the name. Files appear whole or not at all. @throws UserError naming the
/// file
std::string make_borehole_data(const MakeBoreholeArguments& arguments);

}  // namespace flotilla
