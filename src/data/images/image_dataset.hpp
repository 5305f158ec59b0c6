// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/data/dataset.hpp"
#include "src/data/images/image_list.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/images/image_transform.hpp"

namespace flotilla {

/// The images of a list or a folder, one file each.
std::unique_ptr<ImageSource> make_file_images(ImageList list);

struct ImageDatasetOptions {
  std::int64_t ranks_cached = 0;  ///< Ranks of this host that cache files; 0: none
  std::string remedy;             ///< What to do about a bad image
};

/// Images, read and decoded each time. read() throws BadSample for one that is missing, unreadable or no
/// image: "LIST:LINE: PATH: reason; remedy".
std::unique_ptr<Dataset> make_image_dataset(std::unique_ptr<const ImageSource> images,
                                            std::unique_ptr<const ImageTransform> transform,
                                            const ImageDatasetOptions& options);

/// The images that data.kind = "image-list" or "image-folder" names. @throws UserError naming file, line and
/// remedy.
ImageList list_images(const DataConfig& data, const DataSourceConfig& source, std::int64_t classes,
                      const DatasetUse& use);

/// Opens the images that the deck names: of a list, a folder or shards. @throws UserError naming file, line
/// and remedy.
std::unique_ptr<Dataset> open_image_dataset(const DataConfig& data, const DataSourceConfig& source,
                                            std::int64_t classes, const DatasetUse& use);

/// The transform that the deck describes. @throws UserError for a filter that does not exist.
ImageTransformSpec transform_spec(const DataConfig& data);

}  // namespace flotilla
