// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/open_arrays.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/array.hpp"
#include "src/data/arrays/array_dataset.hpp"
#include "src/data/arrays/cifar_file.hpp"
#include "src/data/arrays/hdf5_arrays.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/arrays/numpy_files.hpp"
#include "src/data/data_file.hpp"
#include "src/data/find_data_files.hpp"
#include "src/data/mistake_list.hpp"
#include "src/files/file.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

std::string file_name(const std::string& path) {
  return fs::path(path).filename().string();
}

bool is_folder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

InFolder what_is(DataKind kind, bool training, const std::string& name) {
  const std::string ending = small_ending(name);
  if (kind == DataKind::cifar) {
    const bool tests = name == "test_batch.bin" || name == "test.bin";
    const bool trains = name == "train.bin" || (name.starts_with("data_batch_") && ending == ".bin");
    if (training ? trains : tests) return InFolder::data;
    return tests || trains || ending == ".txt" || ending == ".html" ? InFolder::beside : InFolder::other;
  }
  static constexpr std::array<std::string_view, 4> endings = {".h5", ".hdf5", ".hdf", ".nc"};
  const bool is_data =
      kind == DataKind::numpy ? ending == ".npz" : std::ranges::count(endings, std::string_view(ending)) > 0;
  return is_data ? InFolder::data : InFolder::other;
}

const char* wanted_files(DataKind kind, bool training) {
  switch (kind) {
    case DataKind::cifar: return training ? "data_batch_*.bin or train.bin" : "test_batch.bin or test.bin";
    case DataKind::numpy: return "NAME.npy for data.inputs and data.targets, or *.npz";
    default: return "*.h5, *.hdf5, *.hdf or *.nc";
  }
}

/// Whether the folder that a source names holds its arrays as .npy files of their names.
bool holds_npy(const DataConfig& data, const DataSourceConfig& source) {
  std::error_code ignored;
  return fs::exists(fs::path(source.path) / (data.inputs_of(source) + ".npy"), ignored);
}

/// Whether a file is one array of NumPy, whatever its name.
bool is_npy(const DataConfig& data, const std::string& path) {
  return data.kind == DataKind::numpy && kind_of_path(path).format == FileFormat::npy;
}

/// One for each file, or one for a folder of .npy files.
std::vector<std::string> array_sources(const DataConfig& data, const DataSourceConfig& source, bool training,
                                       LeftOut* left_out = nullptr) {
  if (data.kind == DataKind::numpy && is_folder(source.path) && holds_npy(data, source)) return {source.path};
  std::vector<std::string> files = find_data_files(
      source.path,
      {.of = [&](const std::string& name) { return what_is(data.kind, training, name); },
       .wanted = cat("files of data.kind = \"", data.kind, "\" (", wanted_files(data.kind, training), ")")},
      left_out);
  std::ranges::sort(files);
  return files;
}

std::unique_ptr<ArrayFile> open_source(const DataConfig& data, const std::string& path, const DatasetUse& use,
                                       const std::shared_ptr<ChunkCache>& cache, bool in_order = false) {
  switch (data.kind) {
    case DataKind::hdf5: return open_hdf5_arrays(path, cache);
    case DataKind::cifar: return open_cifar(path);
    default: break;
  }
  if (is_folder(path)) return open_npy_folder(path);
  if (is_npy(data, path)) return open_npy_file(path);
  return open_npz(path, use.inflated, in_order);
}

/// "images, labels": the names that a user can choose from.
std::string names_text(const ArrayFile& file) {
  constexpr std::size_t most_told = 20;
  const std::vector<std::string> names = file.names();
  if (names.empty()) return "it holds no arrays";
  std::string text = "it holds ";
  for (std::size_t k = 0; k < std::min(most_told, names.size()); ++k)
    text += cat(k == 0 ? "" : ", ", names[k]);
  return names.size() > most_told ? cat(text, " and ", names.size() - most_told, " more") : text;
}

/// Opens an array, or notes that there is none of that name.
std::unique_ptr<Array> open_named(const ArrayFile& file, const std::string& path, const std::string& key,
                                  const std::string& name, MistakeList& mistakes) {
  std::unique_ptr<Array> array;
  if (!file.has(name)) {
    // Files of simulations may have parameters too: to say so once is enough.
    const bool is_model = is_of_model(file) && std::string_view(key) == "data.inputs";
    mistakes.add(cat("'", path, "' has no array ", config::quoted(name), " (", key, "): ", names_text(file),
                     is_model ? cat("; it seems to be ", model_file.name, ": ", model_file.advice) : ""));
    return array;
  }
  mistakes.attempt([&] { array = file.open(name); });
  return array;
}

/// The arrays of one file. Where it is a .npy file alone, as `flotilla predict` takes it, that is the inputs.
ArrayPair open_pair(const DataConfig& data, const DataSourceConfig& source, const std::string& path,
                    const ArrayFile& file, std::int64_t classes, bool training, MistakeList& mistakes) {
  std::string inputs = data.inputs_of(source);
  std::string targets = data.targets_of(source);
  if (data.kind == DataKind::cifar) {
    inputs = "images";
    if (source.has_labels()) mistakes.attempt([&] { targets = cifar_labels(file, path, classes); });
  } else if (is_npy(data, path)) {
    if (source.has_labels()) {
      mistakes.add(cat("'", path,
                       "' is one array, and samples need labels or targets too; name the folder that holds ",
                       inputs, ".npy and ", targets, ".npy, or a .npz file"));
      return {};
    }
    inputs = file.names().front();
  }
  const auto key = [&](const std::string& own, const char* name) {
    return cat(own.empty() ? "data" : training ? "data.train" : "data.validation", name);
  };
  ArrayPair pair{.inputs = open_named(file, path, key(source.input_array, ".inputs"), inputs, mistakes),
                 .targets = nullptr};
  if (source.has_labels())
    pair.targets = open_named(file, path, key(source.target_array, ".targets"), targets, mistakes);
  return pair;
}

ArrayDatasetOptions options_of(const DataConfig& data, std::int64_t classes, const DatasetUse& use,
                               const std::vector<std::string>& sources, const LeftOut& left_out) {
  ArrayDatasetOptions options{.classes = classes,
                              .targets = use.targets,
                              .binary = use.binary,
                              .channels_last = data.has_arrays() && data.channels_last,
                              .pixels = {.mean = {data.mean}, .std = {data.std}},
                              .inputs = {.mean = data.input_mean, .std = data.input_std},
                              .target_values = {.mean = data.target_mean, .std = data.target_std},
                              .description = file_name(sources.front()),
                              .left_out = left_out.text()};
  if (data.kind == DataKind::cifar) options.pixels = {.mean = data.image_mean, .std = data.image_std};
  if (sources.size() > 1)
    options.description =
        cat(sources.size(), " files, ", file_name(sources.front()), " to ", file_name(sources.back()));
  return options;
}

/// Keys that would have no effect are refused: data.mean and data.std beside numbers that are no bytes.
void check_scale_keys(const DataConfig& data, const ArrayForm& inputs, bool training, MistakeList& mistakes) {
  if (inputs.type.is_byte() || !data.pixel_scale_given) return;
  mistakes.add(cat(inputs.name, ": holds ", inputs.type.text(), ", and data.mean and data.std are of uint8: ",
                   training ? "give data.input_mean and data.input_std instead" : "convert it to uint8"));
}

/// The arrays of all files; what cannot be opened is noted and missing.
std::vector<ArrayPair> open_parts(const DataConfig& data, const DataSourceConfig& source,
                                  const std::vector<std::string>& sources, std::int64_t classes,
                                  const DatasetUse& use, MistakeList& mistakes) {
  const auto cache = std::make_shared<ChunkCache>(data.cache_mb << 20);
  std::vector<ArrayPair> parts;
  for (const std::string& path : sources) {
    mistakes.attempt([&] {
      const auto file = open_source(data, path, use, cache);
      parts.push_back(open_pair(data, source, path, *file, classes, use.training, mistakes));
    });
  }
  return parts;
}

/// The arrays whose chunks would be decoded once for each sample: in shuffled order all that are decoded,
/// where the cache does not hold them together. Labels are read once.
std::vector<std::unique_ptr<Array>*> arrays_to_inflate(const DataConfig& data, const DatasetUse& use,
                                                       std::vector<ArrayPair>& parts) {
  std::vector<std::unique_ptr<Array>*> arrays;
  if (!use.training || data.order != SampleOrder::shuffled) return arrays;
  for (ArrayPair& part : parts) {
    arrays.push_back(&part.inputs);
    if (use.targets > 0) arrays.push_back(&part.targets);
  }
  std::erase_if(arrays,
                [](const auto* array) { return *array == nullptr || (*array)->decoded_bytes() == 0; });
  std::int64_t bytes = 0;
  for (const std::unique_ptr<Array>* array : arrays) bytes += (*array)->decoded_bytes();
  if (bytes <= data.cache_mb << 20) arrays.clear();
  return arrays;
}

std::string name_of_copy(const Array& array) {
  return cat("the inflated copy of ", array.form().name, " (data.order = \"blocks\" needs none)");
}

/// All rows of an array, one after another, in a nameless file in temporary_folder().
File inflated_rows(const Array& array) {
  constexpr std::int64_t most_bytes = std::int64_t{64} << 20;  // at once, or a row
  const std::int64_t rows = array.form().rows();
  const std::int64_t row_bytes = array.form().row_bytes();
  File copy = File::temporary(temporary_folder(), name_of_copy(array));
  copy.reserve(rows * row_bytes);
  const std::int64_t most = std::clamp<std::int64_t>(most_bytes / row_bytes, 1, array.rows_at_once());
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(most, rows) * row_bytes));
  for (std::int64_t first = 0; first < rows; first += most) {
    const std::int64_t count = std::min(most, rows - first);
    const std::span<std::byte> to = std::span(buffer).first(static_cast<std::size_t>(count * row_bytes));
    array.will_read(first, std::min(2 * most, rows - first));
    array.read(first, count, to);
    copy.append(to);
  }
  return copy;
}

/// Puts copies in the place of arrays that are to be inflated.
void take_inflated_copies(const DataConfig& data, const DatasetUse& use, std::vector<ArrayPair>& parts) {
  for (std::unique_ptr<Array>* array : arrays_to_inflate(data, use, parts)) {
    ArrayForm form = (*array)->form();
    std::optional<File> copy;
    if (const auto handle = use.inflated.find(form.name); handle != use.inflated.end())
      copy = File::of_handle(handle->second, name_of_copy(**array));
    if (!copy) copy = inflated_rows(**array);
    form.storage += cat(", inflated in ", temporary_folder());
    *array = make_plain_array(std::move(form), std::make_shared<const UnchangedFile>(std::move(*copy)), {});
  }
}

}  // namespace

std::map<std::string, File> inflated_chunks(const DataConfig& data, const DataSourceConfig& source,
                                            bool training) {
  std::map<std::string, File> copies;
  if (data.kind != DataKind::hdf5 || data.order != SampleOrder::shuffled) return copies;
  MistakeList mistakes;
  std::vector<ArrayPair> parts;
  mistakes.attempt(
      [&] { parts = open_parts(data, source, array_sources(data, source, training), 0, {}, mistakes); });
  if (!mistakes.empty()) return copies;
  const DatasetUse use{.training = training, .targets = 1};  // they may be labels: then a copy is not used
  for (const std::unique_ptr<Array>* array : arrays_to_inflate(data, use, parts))
    copies.emplace((*array)->form().name, inflated_rows(**array));
  return copies;
}

ArrayForm form_of_inputs(const DataConfig& data, const DataSourceConfig& source, bool training) {
  const std::string path = array_sources(data, source, training).front();
  DataSourceConfig unlabelled = source;
  unlabelled.inputs = {path};
  const auto cache = std::make_shared<ChunkCache>(0);
  MistakeList mistakes;
  const auto file = open_source(data, path, {}, cache, true);
  const ArrayPair pair = open_pair(data, unlabelled, path, *file, 0, training, mistakes);
  mistakes.throw_if_any(config::printable(source.path));
  return pair.inputs->form();
}

std::unique_ptr<Dataset> open_arrays(const DataConfig& data, const DataSourceConfig& source,
                                     std::int64_t classes, const DatasetUse& use) {
  LeftOut left_out;
  const std::vector<std::string> sources = array_sources(data, source, use.training, &left_out);
  MistakeList mistakes;
  std::vector<ArrayPair> parts = open_parts(data, source, sources, classes, use, mistakes);
  if (mistakes.empty()) check_scale_keys(data, parts.front().inputs->form(), use.training, mistakes);
  mistakes.throw_if_any(config::printable(source.path));
  take_inflated_copies(data, use, parts);
  return make_array_dataset(std::move(parts), options_of(data, classes, use, sources, left_out));
}

std::vector<std::string> array_files(const DataConfig& data, const DataSourceConfig& source, bool training,
                                     LeftOut* left_out) {
  std::vector<std::string> files = array_sources(data, source, training, left_out);
  if (!is_folder(files.front())) return files;
  std::vector<std::string> arrays;
  for (const std::string& name : {data.inputs_of(source), data.targets_of(source)})
    arrays.push_back((fs::path(files.front()) / (name + ".npy")).string());
  return arrays;
}

}  // namespace flotilla
