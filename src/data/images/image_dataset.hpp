// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "src/config/config.hpp"
#include "src/data/dataset.hpp"
#include "src/data/images/image_list.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/images/image_transform.hpp"

namespace flotilla {

/// The images that data.kind = "image-list" or "image-folder" names: DatasetUse::images, if they were read.
/// @param classes of the model; any_classes: whatever the data have
/// @throws UserError naming file, line and remedy
std::shared_ptr<const ImageList> list_images(const DataConfig& data, const DataSourceConfig& source,
                                             std::int64_t classes, const DatasetUse& use);

/// The images of a list or a folder, one file each.
std::unique_ptr<ImageSource> make_file_images(std::shared_ptr<const ImageList> list);

/// Images, read and decoded each time. read() throws BadSample for one that is missing, unreadable or no
/// image: "LIST:LINE: PATH: reason; remedy".
/// @param ranks_cached ranks of this host that cache files; 0: none
/// @param remedy what to do about a bad image, a literal
std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> images,
                                            std::unique_ptr<const ImageTransform> transform,
                                            std::int64_t ranks_cached, const char* remedy);

/// The transform that the deck describes. @throws UserError for a filter that does not exist.
ImageTransformSpec transform_spec(const DataConfig& data);

}  // namespace flotilla
