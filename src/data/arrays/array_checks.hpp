// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "src/data/arrays/array_dataset.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

/// Adds what is wrong with the forms of the arrays of several files: shapes and types of inputs that differ
/// from those of the first file, counts of inputs and targets that differ, targets that are not what the
/// model wants.
void check_forms(const std::vector<ArrayPair>& parts, const ArrayDatasetOptions& options,
                 MistakeList& mistakes);

/// Appends the labels of an array. @throws UserError naming the first one that is no class
void read_labels(const Array& targets, std::int64_t classes, std::vector<std::int32_t>& labels);

/// Reads targets of up to 1 GiB from their start; those behind are checked when they are read.
/// @throws UserError naming the first sample whose target is not finite
void check_targets(const Array& targets);

}  // namespace flotilla
