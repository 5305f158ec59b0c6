// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "kernels/error.hpp"
#include "src/data/arrays/chunked_array.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/bag_buffer.hpp"
#include "src/data/clicks/click_dataset.hpp"
#include "src/data/clicks/line_format.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/idx_data.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/image_transform.hpp"
#include "src/data/images/orientation.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/files/checksum.hpp"
#include "src/files/gzip_reader.hpp"
#include "tests/fuzz/fuzz_targets.hpp"

// Files of samples.

namespace flotilla::fuzz {

namespace {

/// Reads all samples of a data set that holds such a file.
void read_all(const Dataset& data) {
  std::vector<float> values(static_cast<std::size_t>(data.sample_shape().size()));
  for (std::int64_t i = 0; i < data.size(); ++i) {
    data.read(i, 1, values);
    if (data.scaling()) {
      std::vector<std::uint8_t> bytes(values.size());
      data.read_bytes(i, 1, bytes);
    }
    if (data.target_width() > 0) {
      std::vector<float> targets(static_cast<std::size_t>(data.target_width()));
      data.read_targets(i, targets);
    }
  }
}

/// Images, with the file as its own labels too, which must be refused or fit.
void idx(Input input) {
  const InputFile file(input);
  for (const std::string& labels : {std::string(), file.path()}) {
    try {
      read_all(*open_idx_dataset(file.path(), labels, 10, {.mean = 0.5, .std = 0.5}, {}));
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
  try {
    open_idx(file.path(), IdxKind::labels);
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void gzip(Input input) {
  const InputFile name(input);
  const File file = File::open(name.path());
  if (!GzipReader::recognises(file)) return;
  std::vector<std::byte> inflated(65536);
  try {
    GzipReader reader(file);
    while (reader.read(inflated) == inflated.size()) continue;
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void clicks(Input input, std::unique_ptr<const LineFormat> format, const FileKind& kind) {
  const InputFile file(input);
  try {
    const std::string path = file.path();
    const ClickOpening opening{
        .path = path, .training = {}, .format = *format, .kind = kind, .inflated = {}, .block_bytes = 64};
    const auto data = make_click_dataset(opening, std::move(format));
    BagBuffer bags(1, data->slots(), data->weighted());
    std::vector<float> dense(static_cast<std::size_t>(data->sample_shape().size()));
    const auto reader = data->bag_reader();
    for (std::int64_t i = 0; i < data->size(); ++i) {
      bags.clear();
      reader->read(i, dense, bags);
    }
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void criteo(Input input) {
  clicks(input, make_criteo_format({.transform = DenseTransform::log, .hash_buckets = 1000}),
         criteo_reader.file);
}
void libsvm(Input input) {
  clicks(input, make_libsvm_format(0), libsvm_reader.file);
}

/// A table whose first column is the label, with and without a header.
void csv(Input input) {
  const InputFile file(input);
  for (const bool header : {true, false}) {
    DataConfig data;
    data.kind = DataKind::csv;
    data.train.path = file.path();
    data.table.header = header;
    data.table.target_columns = {"1"};
    try {
      read_all(*open_dataset(data, data.train, 0, 1));
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

/// JPEG and PNG from the file to the network's input, with EXIF; crops drawn by the file's length.
void image(Input input) {
  const ImageTransformSpec spec{
      .size = 32, .short_side = 40, .exif_orientation = true, .max_pixels = 1 << 21};
  std::vector<float> sample(3 * 32 * 32);
  for (const auto& transform : {make_training_transform(spec), make_validation_transform(spec)}) {
    try {
      transform->apply(input, input.size(), sample);
      note_read();
    } catch (const BadImage&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

/// Reads only the orientation of an image.
void exif(Input input) {
  if (exif_orientation(input) > 1) note_read();
}

/// Reads rows of all arrays, one by one: not too many, for a chunk may be one byte, and HDF5 takes 30 us
/// under sanitizers to look for it.
void read_arrays(const ArrayFile& file) {
  constexpr std::int64_t max_rows = 1000;
  constexpr std::int64_t max_bytes = 1 << 17;
  for (const std::string& name : file.names()) {
    try {
      const auto array = file.open(name);
      const std::int64_t bytes = array->form().row_bytes();
      if (bytes > max_bytes) continue;
      std::vector<std::byte> row(static_cast<std::size_t>(bytes));
      const std::int64_t rows =
          std::min({array->form().rows(), max_rows, max_bytes / std::max<std::int64_t>(bytes, 1)});
      for (std::int64_t i = 0; i < rows; ++i) array->read(i, 1, row);
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

std::shared_ptr<ChunkCache> small_cache() {
  return std::make_shared<ChunkCache>(1 << 20);
}

/// HDF5 files, also those that begin with a user block.
void hdf5_arrays(Input input) {
  const InputFile file(input);
  try {
    read_arrays(*open_hdf5_arrays(file.path(), small_cache()));
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// HDF5, .npy and .npz, recognised by their first bytes.
void known_arrays(Input input) {
  const InputFile file(input);
  try {
    if (const KnownArrays known = open_known_arrays(file.path(), small_cache()); known.file)
      read_arrays(*known.file);
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

void cifar(Input input) {
  const InputFile file(input);
  try {
    read_arrays(*open_cifar(file.path()));
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// A shard without an index.
void shard(Input input) {
  const InputFile file(input);
  try {
    MistakeList mistakes;
    scan_shard(File::open(file.path()), mistakes);
    note_read();
  } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
  }
}

/// The index of a shard, as it is and with the checksum that it should have.
void shard_index(Input input) {
  const std::string text = text_of(input);
  for (const std::string& each : {text, text + hexadecimal(checksum_of(input)) + "\n"}) {
    try {
      ShardIndex::of_text(each, "index");
      note_read();
    } catch (const UserError&) {  // NOLINT(bugprone-empty-catch): refused
    }
  }
}

}  // namespace

std::vector<Target> data_targets() {
  return {{"idx", idx},          {"gzip", gzip},
          {"criteo", criteo},    {"libsvm", libsvm},
          {"csv", csv},          {"jpeg", image},
          {"png", image},        {"exif", exif},
          {"hdf5", hdf5_arrays}, {"npy", known_arrays},
          {"npz", known_arrays}, {"cifar", cifar},
          {"shard", shard},      {"shard_index", shard_index}};
}

}  // namespace flotilla::fuzz
