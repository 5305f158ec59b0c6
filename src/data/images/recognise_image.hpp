// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "src/data/file_kind.hpp"

namespace flotilla {

/// FileFormat::jpeg or png by the first bytes of a file; its name is ignored.
/// @throws BadImage that says what else the file is ("is an HTML page …", "is an empty file …").
FileFormat recognise_image(std::span<const std::byte> file);

}  // namespace flotilla
