// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "src/data/arrays/array.hpp"

namespace flotilla {

/// Writes the next bytes of a compressed array and returns their number; fewer only at its end.
using ByteReader = std::function<std::size_t(std::span<std::byte>)>;

/// An array whose rows are inflated when they are read, without a copy on the disk: cheap where they are read
/// once from the first to the last, or where only the form is wanted. Rows before the last ones that were
/// read are inflated from the start again. @param open a reader of the array's file from its start
/// @param begin of the first row in the inflated bytes
std::unique_ptr<Array> make_streamed_array(ArrayForm form, std::int64_t begin,
                                           std::function<ByteReader()> open);

}  // namespace flotilla
