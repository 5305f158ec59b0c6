// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/known_arrays.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/arrays/cifar_file.hpp"
#include "src/data/arrays/hdf5_arrays.hpp"
#include "src/data/arrays/npz_file.hpp"
#include "src/data/arrays/plain_array.hpp"
#include "src/data/data_file.hpp"
#include "src/data/idx_file.hpp"
#include "src/files/gzip_reader.hpp"

namespace flotilla {

namespace {

using Start = std::array<char, 8>;

Start start_of(const File& file) {
  Start start{};
  file.read_some(0, std::as_writable_bytes(std::span(start)));
  return start;
}

/// What is written in front of the numbers of an IDX file, plain or inflated.
std::string_view idx_array(const File& file) {
  Start start = start_of(file);
  if (GzipReader::recognises(file)) {
    try {
      GzipReader(file).read(std::as_writable_bytes(std::span(start)).first(4));
    } catch (const UserError&) {
      return {};
    }
  }
  const std::string_view magic(start.data(), 4);
  if (magic == std::string_view("\0\0\x08\x03", 4)) return "images";
  return magic == std::string_view("\0\0\x08\x01", 4) ? "labels" : "";
}

/// The one array of an IDX file.
class IdxArrays final : public ArrayFile {
 public:
  IdxArrays(std::string path, std::string name) : path_(std::move(path)), name_(std::move(name)) {}
  std::vector<std::string> names() const override { return {name_}; }
  std::unique_ptr<Array> open(const std::string& /*name*/) const override {
    const bool images = name_ == "images";
    IdxFile idx = open_idx(path_, images ? IdxKind::images : IdxKind::labels);
    ArrayForm form{.name = cat("'", path_, "'"), .extents = {idx.items}, .type = {}, .storage = "contiguous"};
    if (images) form.extents.insert(form.extents.end(), {idx.rows, idx.columns});
    if (!idx.storage.empty()) form.storage = "gzip";
    return make_plain_array(std::move(form), std::make_shared<const UnchangedFile>(std::move(idx.bytes)),
                            {.begin = idx.begin});
  }

 private:
  std::string path_;
  std::string name_;
};

/// Whether the members of an HDF5 file are those of a checkpoint, of a server's part of one or a file of
/// weights.
bool is_of_model(const ArrayFile& file) {
  return std::ranges::any_of(file.names(), [](const std::string& name) {
    return name.starts_with("parameters/") || (name.starts_with("rows/") && name.ends_with("/keys"));
  });
}

}  // namespace

KnownArrays open_known_arrays(const std::string& path, std::shared_ptr<ChunkCache> cache) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    auto folder = open_npy_folder(path);
    if (folder->names().empty()) return {};
    return {"folder of .npy files", std::move(folder)};
  }
  const File file = open_data_file(path);
  const Start start = start_of(file);
  const std::string_view begin(start.data(), start.size());
  if (begin == "\x89HDF\r\n\x1a\n" || path.ends_with(".mat")) {
    auto arrays = open_hdf5_arrays(path, std::move(cache));
    if (is_of_model(*arrays)) return {};
    return {"HDF5", std::move(arrays)};
  }
  if (begin.starts_with("\x93NUMPY")) return {"NumPy .npy", open_npy_file(path)};
  if (begin.starts_with("PK\x03\x04")) return {"NumPy .npz", open_npz(path)};
  if (const std::string_view name = idx_array(file); !name.empty())
    return {"IDX", std::make_unique<IdxArrays>(path, std::string(name))};
  if (path.ends_with(".bin")) return {"CIFAR", open_cifar(path)};
  return {};
}

}  // namespace flotilla
