// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tensor.hpp"
#include "src/config/config.hpp"
#include "src/data/arrays/numbers.hpp"
#include "src/data/data_file.hpp"
#include "src/data/dataset.hpp"
#include "src/data/find_data_files.hpp"
#include "src/files/file.hpp"

namespace flotilla {

/// The number of classes that a model may have: labels of all of them are read.
inline constexpr std::int64_t any_classes = 16777216;

/// A request to open one of the two sources of a deck's data.
struct DataRequest {
  const DataConfig& data;
  const DataSourceConfig& source;
  std::int64_t classes = 0;  ///< Classes of the model; any_classes: the labels say it
  std::uint64_t seed = 0;    ///< Seed of synthetic samples
  const DatasetUse& use;
};

/// The paths that a source reads, not yet examined.
struct SourceFiles {
  std::set<std::string> files;
  std::set<std::string> may_be_missing;
  std::set<std::string> folders;
  LeftOut left_out{};  ///< Other files found next to the data
};

/// The samples that a network takes.
struct SampleForm {
  Shape shape{};       ///< (C,H,W) of images; empty: not known
  bool bytes = false;  ///< uint8
};

struct ArrayFormat;

/// The reader of a kind of data: everything about the kind except its keys (data_kinds). A new one is
/// described at the end of its source and named in data_readers.
struct DataReader {
  DataKind kind;
  std::unique_ptr<Dataset> (*open)(const DataRequest& request);
  /// Adds the files that open() reads, there or not. Null: the samples are generated.
  /// @throws UserError as opening the data would
  void (*list_files)(const DataRequest& request, SourceFiles& found) = nullptr;
  /// The files that open() reads, for DatasetUse::files. Null: open() does not look for files, or takes them
  /// from another list. @throws UserError if there are none
  FoundFiles (*find_files)(const DataRequest& request) = nullptr;
  /// Inflated copies that the ranks of a host share, for DatasetUse::inflated. Null: none.
  std::map<std::string, File> (*inflate)(const DataRequest& request) = nullptr;
  bool always_inflates = false;  ///< Even if a host has one rank: it opens the files more than once
  /// Finds what the training data say of all samples. Null: nothing. @throws UserError as open() does
  void (*find)(const DataRequest& request, FoundInData& found) = nullptr;
  /// The form of the samples, from the headers of the files. Null: they do not say it.
  SampleForm (*form)(const DataRequest& request) = nullptr;
  /// The scaling that the keys ask for, (x − mean) / std, of bytes with x / 255. Null: as stored.
  GivenScaling (*scaling)(const DataConfig& data, bool bytes) = nullptr;
  /// The network's input for a stored number x, if it is no scaling: "log of x".
  std::string (*input)(const DataConfig& data) = nullptr;
  /// The names of the classes that come with the data; empty: there are none. Null: never
  std::vector<std::string> (*class_names)(const DataConfig& data, std::int64_t classes) = nullptr;
  bool class_folders = false;        ///< The classes are the folders in DataSourceConfig::path
  bool predicts_several = false;     ///< `flotilla predict` takes several paths
  std::string_view one_advice = {};  ///< If it does not: what to name instead, "; of several logs name …"
  /// For text files: whether the first line, without surrounding blanks, is of this kind.
  bool (*is_line)(std::string_view line) = nullptr;
  FileKind file{};                      ///< Kind of a file with such a line
  const ArrayFormat* arrays = nullptr;  ///< Format of a kind of arrays (open_arrays.hpp), otherwise null
};

extern const DataReader idx_reader, image_list_reader, image_folder_reader, webdataset_reader, hdf5_reader,
    numpy_reader, cifar_reader, csv_reader, criteo_reader, libsvm_reader, random_reader;

/// All kinds.
inline constexpr std::array data_readers = {
    &idx_reader,   &image_list_reader, &image_folder_reader, &webdataset_reader, &hdf5_reader,  &numpy_reader,
    &cifar_reader, &csv_reader,        &criteo_reader,       &libsvm_reader,     &random_reader};

const DataReader& reader_of(DataKind kind);

/// The names of the classes 0, 1 … of a deck: the lines of the file data.class_names if that is given,
/// otherwise DataReader::class_names. Empty: classes have numbers only.
/// @throws UserError for a file that does not name as many classes
std::vector<std::string> class_names(const DataConfig& data, std::int64_t classes);

/// The names in a file of this name next to the training data, one a line; empty: there is none.
/// @throws UserError as class_names()
std::vector<std::string> names_beside(const DataConfig& data, const char* file, std::int64_t classes);

}  // namespace flotilla
