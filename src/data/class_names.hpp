// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.hpp"

namespace flotilla {

/// The names of the classes 0, 1 … of a deck: the lines of the file data.class_names, if that is given; else
/// the class folders of data.kind = "image-folder", or the lines of classes.txt beside the list of training
/// images or their shards, as scripts/make_lists.sh and `flotilla pack` write it, or the file that
/// comes with CIFAR's binary files. Empty: they have numbers only.
/// @throws UserError for a file that does not name as many classes
std::vector<std::string> class_names(const DataConfig& data, std::int64_t classes);

}  // namespace flotilla
