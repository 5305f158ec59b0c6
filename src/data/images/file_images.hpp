// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "src/data/images/image_list.hpp"
#include "src/data/images/image_source.hpp"

namespace flotilla {

/// The images of a list or a folder, one file each.
std::unique_ptr<ImageSource> make_file_images(ImageList list);

}  // namespace flotilla
