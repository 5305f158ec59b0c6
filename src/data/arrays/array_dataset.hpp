// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/sample_scaling.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// The arrays of a file, row by row: samples, and their labels or the numbers to be predicted.
struct ArrayPair {
  std::unique_ptr<Array> inputs;
  std::unique_ptr<Array> targets;  ///< Null: all labels are 0
};

struct ArrayDatasetOptions {
  std::int64_t classes = 0;  ///< Labels are 0 … classes − 1
  std::int64_t targets = 0;  ///< Numbers to be predicted for a sample; 0: labels
  bool binary = false;       ///< They lie in [0, 1]
  bool channels_last = false;
  GivenScaling pixels{};  ///< Of uint8 inputs
  GivenScaling inputs{};  ///< Of all others; of uint8 too if it is given
  GivenScaling target_values{};
  std::string description{};  ///< "train.h5"
  std::string left_out{};     ///< LeftOut::text()
};

/// The samples of files one after another. Inputs (N), (N,F), (N,H,W) and (N,C,H,W) are samples (1), (F),
/// (1,H,W) and (C,H,W); labels are kept in memory, targets are read with their samples.
/// @param parts at least one
/// @throws UserError: all mistakes at once: shapes and types that differ between the files, counts of inputs
/// and targets that differ, labels that are no classes
std::unique_ptr<Dataset> make_array_dataset(std::vector<ArrayPair> parts, const ArrayDatasetOptions& options);

/// The shape of a sample. @throws UserError naming the array if it has too many axes, or no channels
Shape sample_shape_of(const ArrayForm& inputs, bool channels_last);

}  // namespace flotilla
