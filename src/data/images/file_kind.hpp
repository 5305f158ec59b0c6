// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace flotilla {

enum class FileKind { jpeg, png };

/// What the file's first bytes say that it is; its name does not count.
/// @throws BadImage that says what it is instead ("is an HTML page …", "is empty").
FileKind recognise_image(std::span<const std::byte> file);

}  // namespace flotilla
