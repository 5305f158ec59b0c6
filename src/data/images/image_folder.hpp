// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "src/data/images/image_list.hpp"

namespace flotilla {

struct ImageFolderOptions {
  std::int64_t classes = 0;    ///< Required number of class folders
  bool empty_classes = false;  ///< A class may have no images
  std::string same_as{};       ///< Folder whose classes must have equal names, if it exists; empty: none
};

/// Lists a folder that has a folder of images per class: class 0, 1 … in byte order of the names, the images
/// of a class in byte order of their paths, in folders inside it too. Images are *.jpg, *.jpeg and *.png in
/// small or capital letters; other files are counted in the description, hidden ones are not.
/// @throws UserError naming the folder and the remedy.
ImageList read_image_folder(const std::string& path, const ImageFolderOptions& options);

}  // namespace flotilla
