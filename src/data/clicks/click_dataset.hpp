// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "src/data/clicks/line_format.hpp"
#include "src/data/dataset.hpp"

namespace flotilla {

/// Sample offsets of an index, 8 MB: of Criteo's 45 million lines every 64th is indexed, 15 kB apart.
inline constexpr std::size_t default_index_entries = std::size_t{1} << 20;

/// The click data that `path` names (find_data_files), sample after sample and file after file. Samples are
/// read from disk each time.
/// @param index_entries number of indexed sample offsets, over all files, but at least 64 for each
/// @param inflated DatasetUse::inflated
/// @param training the path of the training data, whose labels say which class a 1 is; empty: `path` is of
/// them
/// @throws UserError naming file, line and remedy
std::unique_ptr<Dataset> make_click_dataset(const std::string& path, std::unique_ptr<const LineFormat> format,
                                            std::size_t index_entries = default_index_entries,
                                            const std::map<std::string, std::string>& inflated = {},
                                            const std::string& training = {});

/// data.kind = "criteo" and "libsvm".
std::unique_ptr<Dataset> open_click_dataset(const DataConfig& data, const DataSourceConfig& source,
                                            const DatasetUse& use);

}  // namespace flotilla
