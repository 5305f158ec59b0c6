// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "src/data/dataset.hpp"
#include "src/data/pixel_scale.hpp"

namespace flotilla {

/// Grey images and their labels out of two IDX files, read from disk sample by sample. Sample shape
/// (1, rows, columns); no augmentation.
/// @param labels empty: all are 0
/// @param inflated DatasetUse::inflated
/// @throws UserError naming file, position and remedy.
std::unique_ptr<Dataset> open_idx_dataset(const std::string& images, const std::string& labels,
                                          std::int64_t classes, const PixelScale& scale,
                                          const std::map<std::string, std::string>& inflated = {});

}  // namespace flotilla
