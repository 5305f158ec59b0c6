// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "src/config/config.hpp"
#include "src/data/arrays/numbers.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// The scaling of inputs that the deck asks for: (x − mean) / std, of bytes with x / 255; both empty: none.
/// @param bytes the numbers of the samples are uint8
GivenScaling scaling_of(const DataConfig& data, bool bytes);

/// The inputs of a data set, as checkpoints keep them: type and shape of a sample as they are stored, and
/// what the network sees of a stored number x: "uint8 1x28x28, (x - 127.5) / 127.5".
std::string input_form(const DataConfig& data, const Dataset& set);

/// The shape of a sample in an input_form().
Shape shape_in(const std::string& form);

/// The target that the loss gets for a number t: "(t - 3) / 2".
std::string target_form(const DataConfig& data);

/// Compares the inputs of data with those that a model was trained on.
/// @param trained, now input_form() of both  @param data names the data in messages
/// @returns a sentence if the numbers have another type but are scaled the same way, otherwise empty
/// @throws UserError where the network would see other values of the same numbers
std::string compare_inputs(const std::string& trained, const std::string& now, const std::string& data);

/// @param trained, now target_form() of the model and of the deck
/// @throws UserError where they differ: predictions would be in other units
void compare_targets(const std::string& trained, const std::string& now);

}  // namespace flotilla
