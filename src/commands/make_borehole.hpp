// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace flotilla {

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
