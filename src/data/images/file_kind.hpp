// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace flotilla {

enum class FileKind { jpeg, png };

/// The kind of a file by its first bytes; its name is ignored.
/// @throws BadImage that names the kind ("is an HTML page …", "is empty").
FileKind recognise_image(std::span<const std::byte> file);

}  // namespace flotilla
