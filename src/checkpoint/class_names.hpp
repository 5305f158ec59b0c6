// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"

namespace flotilla {

/// What CheckpointState::choices keeps as "data.class_names": the names as a JSON array; empty for none, and
/// for more than an attribute of HDF5 holds beside the other choices.
std::string text_of_class_names(const std::vector<std::string>& names);

/// The names of the classes of a checkpoint; empty: it holds none.
std::vector<std::string> class_names_of(const CheckpointState& state);

}  // namespace flotilla
