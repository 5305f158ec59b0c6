// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/write_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <functional>
#include <set>
#include <system_error>

#include "kernels/error.hpp"
#include "src/checkpoint/checksum.hpp"
#include "src/checkpoint/disk_file.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/hdf5_write.hpp"
#include "src/checkpoint/value_reader.hpp"

namespace flotilla {

namespace {

/// Removes the file at the end unless it was renamed before.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) {}
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Writes under the temporary name, hands it to `verify`, and only then gives it its own name. @returns the
/// bytes of the file.
std::int64_t write_atomically(const std::string& path, std::span<const StoredTensor> tensors,
                              std::span<const std::span<const float>> values, const CheckpointState* state,
                              const std::function<void(const std::string&)>& verify) {
  const hdf5::FilePlan plan = hdf5::plan_file(tensors, state);
  const Temporary temporary(temporary_name(path));
  DiskFile file = DiskFile::create(temporary.path());
  for (const hdf5::Piece& piece : plan.structure) file.write(piece.position, piece.bytes);
  for (std::size_t i = 0; i < values.size(); ++i) file.write(plan.positions[i], std::as_bytes(values[i]));
  file.sync();
  file.close();
  verify(temporary.path());
  rename_file(temporary.path(), path);
  sync_folder(folder_of(path));
  return plan.bytes;
}

/// Reads the file again and compares it with what was meant. @throws UserError if it differs.
void verify(const std::string& path, std::span<const StoredTensor> tensors, const CheckpointState& state) {
  const FileIndex index = hdf5::read_index(path);
  std::string damage = first_damage(index);
  if (damage.empty() && index.checksum != index_checksum(state, tensors))
    damage = "its list of tensors differs";
  if (!damage.empty()) throw UserError(cat("'", path, "' reads back wrong after it was written: ", damage));
}

std::vector<StoredTensor> described(const Snapshot& snapshot) {
  std::vector<StoredTensor> tensors;
  for (const CheckpointTensor& tensor : snapshot.tensors)
    tensors.push_back({.path = tensor.path,
                       .shape = tensor.shape,
                       .checksum = checksum_of(std::as_bytes(snapshot.of(tensor))),
                       .position = {},
                       .problem = {}});
  return tensors;
}

/// A name that the reader would not find is a mistake of the caller.
void require_readable_names(const Snapshot& snapshot) {
  std::set<std::string> seen;
  for (const CheckpointTensor& tensor : snapshot.tensors) {
    const std::string& path = tensor.path;
    const std::size_t first = path.find('/');
    const std::string group = path.substr(0, first);
    const int depth = group == "optimizer" ? 2 : 1;
    int slashes = 0;
    for (const char letter : path) slashes += letter == '/';
    require((group == "parameters" || group == "statistics" || group == "optimizer") && slashes == depth &&
                path.back() != '/' && path.find("//") == std::string::npos && seen.insert(path).second,
            "'", path, "' is no name of a tensor in a checkpoint, or occurs twice");
  }
}

}  // namespace

std::string temporary_name(const std::string& path) {
  return cat(path, ".tmp-", ::getpid());
}

std::int64_t write_snapshot(const std::string& path, const Snapshot& snapshot) {
  require_readable_names(snapshot);
  const std::vector<StoredTensor> tensors = described(snapshot);
  std::vector<std::span<const float>> values;
  for (const CheckpointTensor& tensor : snapshot.tensors) values.push_back(snapshot.of(tensor));
  return write_atomically(path, tensors, values, &snapshot.state,
                          [&](const std::string& written) { verify(written, tensors, snapshot.state); });
}

void check_output_file(const std::string& out, const std::string& in) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  // Renaming onto a device (/dev/null) would replace it for everybody.
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw UserError(cat("cannot write '", out, "': it is there and not a regular file; give another name"));
  if (fs::equivalent(out, in, error))
    throw UserError(cat("cannot write '", out, "': it is the file that is being read; give another name"));
  if (::access(folder_of(out).c_str(), W_OK | X_OK) != 0)
    throw UserError(cat("cannot write '", out, "': ", std::strerror(errno), ": its folder '", folder_of(out),
                        "'; give a name in a folder that can be written"));
}

void write_checkpoint_file(const std::string& path, const Snapshot& snapshot) {
  write_snapshot(path, snapshot);
}

void write_array(const std::string& path, const std::string& name, const Shape& shape,
                 std::span<const float> values) {
  require(static_cast<std::int64_t>(values.size()) == shape.size(), "wrong number of values for ", name);
  const StoredTensor tensor{.path = name,
                            .shape = shape,
                            .checksum = checksum_of(std::as_bytes(values)),
                            .position = {},
                            .problem = {}};
  write_atomically(path, {&tensor, 1}, {&values, 1}, nullptr, [](const std::string&) {});
}

}  // namespace flotilla
