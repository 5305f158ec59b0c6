// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>

namespace flotilla {

/// A file is not a usable image. what() is a predicate without its subject ("is empty", "is a GIF
/// file; convert it to JPEG or PNG"), to follow "<path>: ".
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace flotilla
