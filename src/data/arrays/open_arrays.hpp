// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/data/arrays/array.hpp"
#include "src/data/arrays/chunked_array.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/find_data_files.hpp"
#include "src/files/file.hpp"

namespace flotilla {

class MistakeList;

/// Options for opening an array file.
struct ArrayOpening {
  const DataRequest& request;
  std::shared_ptr<ChunkCache> cache;
  bool in_order = false;  ///< Rows are read from the first to the last, if at all: nothing is inflated before
};

/// The names of the arrays of samples and of targets in a file.
struct ArrayNames {
  std::string inputs;
  std::string targets;
};

/// The differences between kinds of arrays. array_reader() makes a DataReader from it.
struct ArrayFormat {
  /// The files that are read of a folder, for messages: "*.h5, *.hdf5".
  const char* (*wanted)(bool training);
  /// The role of a file of a folder, by its name.
  InFolder (*what_is)(const std::string& name, bool training);
  std::unique_ptr<ArrayFile> (*open)(const std::string& path, const ArrayOpening& opening);
  /// Whether a folder is to be opened itself instead of the files in it. Null: never
  bool (*is_source)(const DataConfig& data, const DataSourceConfig& source) = nullptr;
  /// Changes the names that the deck gives to those of this file. Null: they stay
  /// @param mistakes gets what is wrong  @throws UserError where the file cannot be read at all
  void (*name_arrays)(ArrayNames& names, const ArrayFile& file, const std::string& path,
                      const DataRequest& request, MistakeList& mistakes) = nullptr;
};

/// Opens data of a kind of arrays, augmented where they are images of bytes. Chunks of HDF5 files that exceed
/// data.cache_mb together are inflated into nameless files in temporary_folder() where a training reads them
/// in shuffled order. @throws UserError: all mistakes of all files at once
std::unique_ptr<Dataset> open_arrays(const DataRequest& request);

/// The form of the inputs that open_arrays() opens, of the first file: headers are read, nothing is inflated.
/// @throws UserError where it cannot be read
SampleForm form_of_arrays(const DataRequest& request);

GivenScaling scaling_of_arrays(const DataConfig& data, bool bytes);

/// Copies of the arrays of HDF5 files whose chunks a shuffled training would decode once for each sample,
/// because they exceed data.cache_mb together: by ArrayForm::name. None if the files have mistakes, which
/// open_arrays() reports. @throws UserError where there is no room in temporary_folder(), or a chunk is
/// damaged
std::map<std::string, File> inflated_chunks(const DataRequest& request);

/// The files that open_arrays() reads, in byte order of their names. @param left_out gets the other files
/// found next to the data  @throws UserError if there are none
std::vector<std::string> array_files(const DataRequest& request, LeftOut* left_out = nullptr);
/// One for each file, or one for a folder that is opened itself.
FoundFiles array_sources(const DataRequest& request);
void list_arrays(const DataRequest& request, SourceFiles& found);

constexpr DataReader array_reader(DataKind kind, const ArrayFormat& format) {
  return {.kind = kind,
          .open = open_arrays,
          .list_files = list_arrays,
          .find_files = array_sources,
          .form = form_of_arrays,
          .scaling = scaling_of_arrays,
          .arrays = &format};
}

}  // namespace flotilla
