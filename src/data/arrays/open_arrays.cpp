// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/open_arrays.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/array.hpp"
#include "src/data/arrays/array_dataset.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/augmentation.hpp"
#include "src/data/data_file.hpp"
#include "src/data/mistake_list.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

std::string file_name(const std::string& path) {
  return fs::path(path).filename().string();
}

const ArrayFormat& format_of(const DataConfig& data) {
  return *reader_of(data.kind).arrays;
}

/// "images, labels": the names that a user can choose from.
std::string names_text(const ArrayFile& file) {
  constexpr std::size_t max_told = 20;
  const std::vector<std::string> names = file.names();
  if (names.empty()) return "it holds no arrays";
  std::string text = "it holds ";
  for (std::size_t k = 0; k < std::min(max_told, names.size()); ++k)
    text += cat(k == 0 ? "" : ", ", names[k]);
  return names.size() > max_told ? cat(text, " and ", names.size() - max_told, " more") : text;
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

/// The arrays of one file.
ArrayPair open_pair(const DataRequest& request, const std::string& path, const ArrayFile& file,
                    MistakeList& mistakes) {
  const auto& [data, source, classes, seed, use] = request;
  ArrayNames names{.inputs = data.inputs_of(source), .targets = data.targets_of(source)};
  const ArrayFormat& format = format_of(data);
  if (format.name_arrays != nullptr) format.name_arrays(names, file, path, request, mistakes);
  const bool training = use.training;
  const auto key = [&](const std::string& own, const char* name) {
    return cat(own.empty() ? "data" : training ? "data.train" : "data.validation", name);
  };
  ArrayPair pair{.inputs = open_named(file, path, key(source.input_array, ".inputs"), names.inputs, mistakes),
                 .targets = nullptr};
  if (source.has_labels())
    pair.targets = open_named(file, path, key(source.target_array, ".targets"), names.targets, mistakes);
  return pair;
}

/// The scaling by two keys; what is "auto" and not found yet leaves the numbers as they are.
GivenScaling scale_of(const std::vector<double>& mean, const std::vector<double>& deviation) {
  return {is_auto(mean) ? std::vector{0.0} : mean, is_auto(deviation) ? std::vector{1.0} : deviation};
}

ArrayDatasetOptions options_of(const DataRequest& request, const FoundFiles& found) {
  const auto& [data, source, classes, seed, use] = request;
  const std::vector<std::string>& sources = found.paths;
  ArrayDatasetOptions options{.classes = classes,
                              .targets = use.targets,
                              .binary = use.binary,
                              .words = data.found.classes,
                              .channels_last = data.channels_last,
                              .pixels = data.keys().colours ? GivenScaling{data.image_mean, data.image_std}
                                                            : GivenScaling{{data.mean}, {data.std}},
                              .inputs = scale_of(data.input_mean, data.input_std),
                              .target_values = scale_of(data.target_mean, data.target_std),
                              .description = file_name(sources.front()),
                              .left_out = found.left_out.text()};
  if (sources.size() > 1)
    options.description =
        cat(sources.size(), " files, ", file_name(sources.front()), " to ", file_name(sources.back()));
  return options;
}

/// Refuses keys that would have no effect: data.mean and data.std for numbers that are not bytes.
void check_scale_keys(const DataConfig& data, const ArrayForm& inputs, bool training, MistakeList& mistakes) {
  if (inputs.type.is_byte() || !data.pixel_scale_given) return;
  mistakes.add(cat(inputs.name, ": holds ", inputs.type.text(), ", and data.mean and data.std are of uint8: ",
                   training ? "give data.input_mean and data.input_std instead" : "convert it to uint8"));
}

/// The arrays of all files; what cannot be opened is noted and missing.
std::vector<ArrayPair> open_parts(const DataRequest& request, const std::vector<std::string>& sources,
                                  MistakeList& mistakes) {
  const auto cache = std::make_shared<ChunkCache>(request.data.cache_mb << 20);
  std::vector<ArrayPair> parts;
  for (const std::string& path : sources) {
    mistakes.attempt([&] {
      const auto file = format_of(request.data).open(path, {.request = request, .cache = cache});
      parts.push_back(open_pair(request, path, *file, mistakes));
    });
  }
  return parts;
}

/// The arrays whose chunks would be decoded once for each sample: in shuffled order all that are decoded,
/// where the cache does not hold them together. Labels are read once.
std::vector<std::unique_ptr<Array>*> arrays_to_inflate(const DataConfig& data, const DatasetUse& use,
                                                       std::vector<ArrayPair>& parts) {
  std::vector<std::unique_ptr<Array>*> arrays;
  if (!use.training || reads_in_order(data.order)) return arrays;
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
  constexpr std::int64_t max_bytes = std::int64_t{64} << 20;  // at once, or a row
  const std::int64_t rows = array.form().rows();
  const std::int64_t row_bytes = array.form().row_bytes();
  File copy = File::temporary(temporary_folder(), name_of_copy(array));
  copy.reserve(rows * row_bytes);
  const std::int64_t most = std::clamp<std::int64_t>(max_bytes / row_bytes, 1, array.rows_at_once());
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

FoundFiles array_sources(const DataRequest& request) {
  const auto& [data, source, classes, seed, use] = request;
  if (use.files != nullptr) return *use.files;
  const ArrayFormat& format = format_of(data);
  const bool of_training = use.training || data.validation.share > 0.0;
  if (format.is_source != nullptr && is_folder(source.path) && format.is_source(data, source))
    return {.paths = {source.path}};
  FoundFiles found;
  found.paths = find_data_files(
      source.path,
      {.of = [&](const std::string& name) { return format.what_is(name, of_training); },
       .wanted = cat("files of data.kind = \"", data.kind, "\" (", format.wanted(of_training), ")")},
      &found.left_out);
  std::ranges::sort(found.paths);
  return found;
}

std::map<std::string, File> inflated_chunks(const DataRequest& request) {
  std::map<std::string, File> copies;
  if (reads_in_order(request.data.order)) return copies;
  MistakeList mistakes;
  std::vector<ArrayPair> parts;
  mistakes.attempt([&] { parts = open_parts(request, array_sources(request).paths, mistakes); });
  if (!mistakes.empty()) return copies;
  // They may be labels: then a copy is not used.
  const DatasetUse use{.training = request.use.training, .targets = 1};
  for (const std::unique_ptr<Array>* array : arrays_to_inflate(request.data, use, parts))
    copies.emplace((*array)->form().name, inflated_rows(**array));
  return copies;
}

SampleForm form_of_arrays(const DataRequest& request) {
  const std::string path = array_sources(request).paths.front();
  DataSourceConfig unlabelled = request.source;
  unlabelled.inputs = {path};
  MistakeList mistakes;
  const DataRequest own{.data = request.data, .source = unlabelled, .use = request.use};
  const auto file =
      format_of(request.data)
          .open(path, {.request = own, .cache = std::make_shared<ChunkCache>(0), .in_order = true});
  const ArrayPair pair = open_pair(own, path, *file, mistakes);
  mistakes.throw_if_any(config::printable(request.source.path));
  const ArrayForm& form = pair.inputs->form();
  return {.shape = sample_shape_of(form, request.data.channels_last), .bytes = form.type.is_byte()};
}

GivenScaling scaling_of_arrays(const DataConfig& data, bool bytes) {
  if (data.keys().colours) return {data.image_mean, data.image_std};
  if (data.input_mean.empty() && data.input_std.empty())
    return bytes ? GivenScaling{{data.mean}, {data.std}} : GivenScaling{};
  GivenScaling scale = scale_of(data.input_mean, data.input_std);
  if (scale.mean.empty()) scale.mean.assign(scale.std.size(), 0.0);
  if (scale.std.empty()) scale.std.assign(scale.mean.size(), 1.0);
  return scale;
}

std::unique_ptr<Dataset> open_arrays(const DataRequest& request) {
  const DataConfig& data = request.data;
  const FoundFiles sources = array_sources(request);
  MistakeList mistakes;
  std::vector<ArrayPair> parts = open_parts(request, sources.paths, mistakes);
  if (mistakes.empty()) check_scale_keys(data, parts.front().inputs->form(), request.use.training, mistakes);
  mistakes.throw_if_any(config::printable(request.source.path));
  take_inflated_copies(data, request.use, parts);
  auto arrays = make_array_dataset(std::move(parts), options_of(request, sources));
  if (const std::optional<ByteScaling> scaling = arrays->scaling())
    return with_augmentation(std::move(arrays), request, *scaling);
  if (request.use.training && augmentation_spec(data, false).any())
    throw UserError(cat(
        "data.flip, data.crop_padding, data.erase and data.rand_augment need images of uint8 with 1 to 4 "
        "channels, which ",
        arrays->description(), " are not: leave them out",
        data.has_arrays() && !data.channels_last ? ", or set data.channels_last = true for images (N,H,W,C)"
                                                 : ""));
  return arrays;
}

std::vector<std::string> array_files(const DataRequest& request, LeftOut* left_out) {
  const auto [files, others] = array_sources(request);
  if (left_out != nullptr) left_out->add(others);
  if (format_of(request.data).is_source == nullptr || !is_folder(files.front())) return files;
  std::vector<std::string> arrays;
  for (const std::string& name :
       {request.data.inputs_of(request.source), request.data.targets_of(request.source)})
    arrays.push_back((fs::path(files.front()) / (name + ".npy")).string());
  return arrays;
}

void list_arrays(const DataRequest& request, SourceFiles& found) {
  for (const std::string& path : array_files(request, &found.left_out)) found.files.insert(path);
}

}  // namespace flotilla
