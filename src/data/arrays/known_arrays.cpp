// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/known_arrays.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/arrays/array.hpp"
#include "src/data/arrays/numpy_files.hpp"
#include "src/data/data_file.hpp"
#include "src/data/idx_data.hpp"
#include "src/files/gzip_reader.hpp"

namespace flotilla {

namespace {

/// The one array of an IDX file.
class IdxArrays final : public ArrayFile {
 public:
  IdxArrays(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}
  std::vector<std::string> names() const override { return {name_}; }
  std::unique_ptr<Array> open(const std::string& /*name*/) const override {
    const bool images = name_ == "images";
    const IdxKind kind = images ? IdxKind::images : IdxKind::labels;
    bool compressed = false;
    IdxFile idx = idx_header(path_, kind, compressed);
    ArrayForm form{.name = cat("'", path_, "'"), .extents = {idx.items}, .type = {}, .storage = "contiguous"};
    if (images) form.extents.insert(form.extents.end(), {idx.rows, idx.columns});
    if (!compressed || idx.type != 8 || idx.width > 1) {
      IdxFile opened = open_idx(path_, kind);
      if (!opened.storage.empty()) form.storage = "converted";
      return make_plain_array(std::move(form), std::make_shared<const UnchangedFile>(std::move(opened.bytes)),
                              {.begin = opened.begin});
    }
    form.storage = "gzip";
    const auto file = std::make_shared<const File>(std::move(idx.bytes));
    return make_streamed_array(std::move(form), idx.begin, [file]() -> ByteReader {
      const auto reader = std::make_shared<GzipReader>(*file);
      return [file, reader](std::span<std::byte> to) { return reader->read(to); };
    });
  }

 private:
  std::string path_;
  std::string name_;
};

}  // namespace

bool is_of_model(const ArrayFile& file) {
  return std::ranges::any_of(file.names(), [](const std::string& name) {
    return name.starts_with("parameters/") || (name.starts_with("rows/") && name.ends_with("/keys"));
  });
}

KnownArrays open_known_arrays(const std::string& path, std::shared_ptr<ChunkCache> cache) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    auto folder = open_npy_folder(path);
    if (folder->names().empty()) return {};
    return {"folder of .npy files", std::move(folder)};
  }
  const FileKind kind = kind_of_path(path);
  switch (kind.format) {
    case FileFormat::hdf5: {
      if (kind.gzipped) break;
      auto arrays = open_hdf5_arrays(path, std::move(cache));
      if (is_of_model(*arrays)) break;
      return {"HDF5", std::move(arrays)};
    }
    case FileFormat::npy:
      if (kind.gzipped) break;
      return {"NumPy .npy", open_npy_file(path)};
    case FileFormat::npz:
      if (kind.gzipped) break;
      return {"NumPy .npz", open_npz(path, {}, true)};
    case FileFormat::idx:
      return {"IDX", std::make_unique<IdxArrays>(path, kind.name.ends_with("images") ? "images" : "labels")};
    case FileFormat::cifar: return {"CIFAR", open_cifar(path)};
    case FileFormat::unknown:
    case FileFormat::binary:
      if (path.ends_with(".bin")) return {"CIFAR", open_cifar(path)};
      break;
    default: break;
  }
  return {};
}

}  // namespace flotilla
