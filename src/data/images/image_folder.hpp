// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/data/images/image_list.hpp"

namespace flotilla {

struct ImageFolderOptions {
  std::int64_t classes = 0;    ///< Required number of class folders
  bool empty_classes = false;  ///< A class may have no images
  std::string same_as{};       ///< Folder whose classes must have equal names, if it exists; empty: none
};

/// Whether names of JPEG and PNG images end so: ".jpg", in small letters.
bool is_image_ending(std::string_view ending);
/// Whether the name has such an ending, in small or capital letters.
bool has_image_ending(const std::string& name);

/// "WebP image" for ".webp": the image format that an ending in lower case stands for, if it is one that is
/// not decoded; otherwise empty.
std::string_view foreign_image_of(std::string_view ending);

/// The images among `files_and_folders`, in that order; those of a folder, and of folders inside it, in byte
/// order of their paths. All labels are 0. @throws UserError for a folder without images, and a missing file
ImageList list_unlabelled_images(const std::vector<std::string>& files_and_folders);

/// The names of the class folders in `path`, in byte order. @throws UserError if it cannot be read
std::vector<std::string> class_folders(const std::string& path);

/// Lists a folder that has a folder of images per class: class 0, 1 … in byte order of the names, the images
/// of a class in byte order of their paths, in folders inside it too. Images are recognised by
/// has_image_ending(); what is left out is counted in the description.
/// @throws UserError naming the folder and the remedy, also where its folders are "train", "val" and the
/// like.
ImageList read_image_folder(const std::string& path, const ImageFolderOptions& options);

}  // namespace flotilla
