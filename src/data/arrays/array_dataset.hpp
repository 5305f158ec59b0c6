// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/numbers.hpp"
#include "src/data/dataset.hpp"
#include "src/data/mistake_list.hpp"

namespace flotilla {

/// The arrays of a file, row by row: samples, and their labels or the numbers to be predicted.
struct ArrayPair {
  std::unique_ptr<Array> inputs;
  std::unique_ptr<Array> targets;  ///< Null: all labels are 0
};

struct ArrayDatasetOptions {
  std::int64_t classes = 0;          ///< Labels are 0 … classes − 1
  std::int64_t targets = 0;          ///< Numbers to be predicted for a sample; 0: labels
  bool binary = false;               ///< They lie in [0, 1]
  std::vector<std::string> words{};  ///< Texts of the labels 0, 1 …, where they are texts
  bool channels_last = false;
  GivenScaling pixels{};  ///< Scaling of uint8 inputs
  GivenScaling inputs{};  ///< Scaling of all other inputs, and of uint8 if it is given
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

/// Adds what is wrong with the forms of the arrays of several files: shapes and types of inputs that differ
/// from those of the first file, counts of inputs and targets that differ, targets that do not suit the
/// model.
void check_forms(const std::vector<ArrayPair>& parts, const ArrayDatasetOptions& options,
                 MistakeList& mistakes);

/// Appends the labels of an array. @throws UserError naming the first one that is not a class
void read_labels(const Array& targets, const ArrayDatasetOptions& options, std::vector<std::int32_t>& labels);

/// The texts of the classes 0, 1 … for data whose labels are these texts: in numerical order if all are
/// integers, otherwise in byte order; if they are integers from 0 to classes − 1, all of that range. @param
/// classes 0: not known
/// @param what for messages  @throws UserError if their number differs from `classes`, or there is only one
std::vector<std::string> class_words(const std::set<std::string>& texts, std::int64_t classes,
                                     const std::string& what);

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
