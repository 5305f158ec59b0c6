// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
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

/// Adds each of `count` rows from `first` on that holds a target that no model can predict: one that is not
/// finite as a float or, where `binary`, does not lie in [0, 1].
/// @throws UserError where the rows cannot be read
void check_targets(const Array& targets, std::int64_t first, std::int64_t count, bool binary,
                   MistakeList& mistakes);

/// Position of the first value that is not finite or, where `binary`, does not lie in [0, 1]; −1: there is
/// none.
std::int64_t find_bad_target(std::span<const float> values, bool binary);

/// "'a.h5', labels: the target of sample 2 is nan, …".
std::string bad_target_text(const ArrayForm& targets, std::int64_t row, float value);

}  // namespace flotilla
