// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/data/dataset.hpp"
#include "src/data/find_data_files.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// Opens data.kind = "hdf5", "numpy" or "cifar". Chunks of HDF5 files that exceed data.cache_mb together are
/// inflated into nameless files in temporary_folder() where a training reads them in shuffled order. @throws
/// UserError: all mistakes of all files at once
std::unique_ptr<Dataset> open_arrays(const DataConfig& data, const DataSourceConfig& source,
                                     std::int64_t classes, const DatasetUse& use);

/// The form of the inputs that open_arrays() opens, of the first file: headers are read, nothing is inflated.
/// @throws UserError where it cannot be read
ArrayForm form_of_inputs(const DataConfig& data, const DataSourceConfig& source, bool training);

/// Copies of the arrays of HDF5 files whose chunks a shuffled training would decode once for each sample,
/// because they exceed data.cache_mb together: by ArrayForm::name, for DatasetUse::inflated. None where the
/// files have mistakes: open_arrays() tells them.
/// @param training DatasetUse::training @throws UserError where there is no room in temporary_folder(), or a
/// chunk is damaged
std::map<std::string, File> inflated_chunks(const DataConfig& data, const DataSourceConfig& source,
                                            bool training);

/// The files that open_arrays() reads, in byte order of their names. @param training DatasetUse::training
/// @param left_out gets files beside the data
/// @throws UserError if there are none
std::vector<std::string> array_files(const DataConfig& data, const DataSourceConfig& source, bool training,
                                     LeftOut* left_out = nullptr);

}  // namespace flotilla
