// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/dataset.hpp"

namespace flotilla {

/// Opens data.kind = "hdf5", "numpy" or "cifar". @throws UserError: all mistakes of all files at once
std::unique_ptr<Dataset> open_arrays(const DataConfig& data, const DataSourceConfig& source,
                                     std::int64_t classes, const DatasetUse& use);

/// The files that open_arrays() reads, in byte order of their names. @param training DatasetUse::training
/// @throws UserError if there are none
std::vector<std::string> array_files(const DataConfig& data, const DataSourceConfig& source, bool training);

}  // namespace flotilla
