// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "src/data/clicks/line_format.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// The click data that `path` names (find_click_files), sample after sample and file after file. Each sample
/// is read from disk anew.
/// @param index_entries how many beginnings of samples are kept, of all files together, but 64 of each at
/// least. The default takes 8 MB; Criteo's 45 million lines are then known by every 64th, 15 kB apart.
/// @throws UserError naming file, line and remedy
std::unique_ptr<Dataset> make_click_dataset(const std::string& path, std::unique_ptr<const LineFormat> format,
                                            std::size_t index_entries = std::size_t{1} << 20);

/// data.kind = "criteo" and "libsvm".
std::unique_ptr<Dataset> open_click_dataset(const DataConfig& data, const DataSourceConfig& source);

}  // namespace flotilla
