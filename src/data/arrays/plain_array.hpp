// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/unchanged_file.hpp"

namespace flotilla {

/// Where the rows of an array lie in a file: row r begins at byte begin + r · stride.
struct PlainPlace {
  std::int64_t begin = 0;
  std::int64_t stride = 0;  ///< bytes; 0: the rows lie one after another
};

/// An array whose rows lie in a file as they are. @throws UserError if the file ends before the last row
std::unique_ptr<Array> make_plain_array(ArrayForm form, std::shared_ptr<const UnchangedFile> file,
                                        const PlainPlace& place);

}  // namespace flotilla
