// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/data/arrays/array.hpp"

namespace flotilla {

/// The records of a binary file of CIFAR-10 (a label, then 3 × 32 × 32 bytes) or CIFAR-100 (a coarse and a
/// fine label in front) as arrays "images" (N,3,32,32) and "labels", or "coarse_labels" and "fine_labels".
/// The size of the file tells which of the two it is. @throws UserError if it is neither
std::unique_ptr<ArrayFile> open_cifar(const std::string& path);

}  // namespace flotilla
