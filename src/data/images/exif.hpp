// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace flotilla {

/// How a camera was held: 1 (upright) … 8, the value of EXIF tag 0x0112 in a JPEG file's APP1 segment or a
/// PNG file's eXIf chunk. 1 if there is none, or none that can be understood.
int exif_orientation(std::span<const std::byte> file);

}  // namespace flotilla
