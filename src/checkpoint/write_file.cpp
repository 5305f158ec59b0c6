// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/write_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <set>
#include <system_error>

#include "kernels/error.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/hdf5_write.hpp"
#include "src/checkpoint/value_reader.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file_error.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

constexpr std::int64_t flush_bytes = std::int64_t{1} << 25;

/// Reads the file again and compares it with what was meant. @throws UserError if it differs.
void verify(const std::string& path, std::span<const StoredTensor> tensors, const CheckpointState& state,
            const std::function<void()>& moved) {
  const FileIndex index = hdf5::read_index(path);
  std::string damage = first_damage(index, moved);
  if (damage.empty() && index.checksum != index_checksum(state, tensors))
    damage = "its list of tensors differs";
  if (!damage.empty()) throw UserError(cat("'", path, "' reads back wrong after it was written: ", damage));
}

std::vector<StoredTensor> without_values(std::span<const CheckpointTensor> tensors) {
  std::vector<StoredTensor> stored;
  for (const CheckpointTensor& tensor : tensors)
    stored.push_back({.path = tensor.path,
                      .shape = tensor.shape,
                      .checksum = 0,
                      .position = {},
                      .problem = {},
                      .element = tensor.element});
  return stored;
}

/// Whether a run resumes from the file. Exported models and files of other programs can be made again.
bool resumes_a_run(const std::string& path) {
  try {
    return hdf5::read_index(path).state.resumes();
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

void require_readable_names(std::span<const CheckpointTensor> tensors) {
  std::set<std::string> seen;
  for (const CheckpointTensor& tensor : tensors) {
    const std::string& path = tensor.path;
    const std::size_t first = path.find('/');
    const std::string group = path.substr(0, first);
    const bool deep = group == "optimizer" || group == "strategy" || group == "rows";
    require((group == "parameters" || group == "statistics" || deep) &&
                std::ranges::count(path, '/') == (deep ? 2 : 1) && path.back() != '/' &&
                path.find("//") == std::string::npos && seen.insert(path).second,
            "'", path, "' is no name of a tensor in a checkpoint, or occurs twice");
  }
}

std::string temporary_name(const std::string& path) {
  return cat(path, ".tmp-", ::getpid());
}

NewFile::NewFile(const std::string& path, std::span<const CheckpointTensor> tensors)
    : tensors_(without_values(tensors)),
      positions_(hdf5::plan_file(tensors_, nullptr).positions),
      written_(tensors_.size()),
      sums_(tensors_.size()),
      file_(path, temporary_name(path)) {}

void NewFile::write(std::size_t tensor, std::span<const float> values) {
  require(static_cast<std::int64_t>(values.size()) == tensors_[tensor].shape.size(),
          "wrong number of values for ", tensors_[tensor].path);
  append(tensor, std::as_bytes(values));
}

void NewFile::append(std::size_t tensor, std::span<const std::byte> values) {
  std::int64_t& written = written_[tensor];
  require(static_cast<std::int64_t>(values.size()) <= tensors_[tensor].bytes() - written,
          "too many values for ", tensors_[tensor].path);
  while (!values.empty()) {
    // Summed and copied by the system while it is in the processor's cache.
    constexpr std::size_t piece_bytes = std::size_t{1} << 19;
    const auto piece = values.first(std::min(piece_bytes, values.size()));
    sums_[tensor].add(piece);
    file_.file().write(positions_[tensor] + written, piece);
    written += static_cast<std::int64_t>(piece.size());
    values = values.subspan(piece.size());
  }
}

CheckpointPart NewFile::complete(const CheckpointState* state, const std::function<void()>& moved) {
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    require(written_[i] == tensors_[i].bytes(), "too few values for ", tensors_[i].path);
    tensors_[i].checksum = sums_[i].value();
  }
  const hdf5::FilePlan plan = hdf5::plan_file(tensors_, state);
  require(plan.positions == positions_, "the values of '", file_.path(), "' were written to other places");
  for (const hdf5::Piece& piece : plan.structure) {
    file_.file().write(piece.position, piece.bytes);
    moved();
  }
  // Piece by piece, so that a slow disk is seen to move.
  for (std::int64_t begin = 0; begin < plan.bytes; begin += flush_bytes) {
    file_.file().push_out(begin, std::min(flush_bytes, plan.bytes - begin));
    moved();
  }
  file_.complete();
  moved();
  if (state != nullptr) verify(file_.temporary(), tensors_, *state, moved);
  return {.name = std::filesystem::path(file_.path()).filename().string(),
          .bytes = plan.bytes,
          .checksum = state == nullptr ? 0 : index_checksum(*state, tensors_)};
}

void NewFile::give_name() {
  file_.give_name();
  sync_folder(folder_of(file_.path()));
}

void check_replaced_file(const std::string& out, const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::error_code error;
  for (const std::string& in : inputs)
    if (fs::equivalent(out, in, error))
      throw UserError(cat("cannot write '", out, "': it is the file that is being read; give another name"));
  if (fs::exists(out, error) && resumes_a_run(out))
    throw UserError(
        cat("cannot write '", out,
            "': it is a checkpoint that a run resumes from; give another name, or remove it first"));
}

void check_output_file(const std::string& out, const std::vector<std::string>& inputs) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(out, error);
  // Renaming onto a device (/dev/null) would replace it for all processes.
  if (fs::exists(status) && !fs::is_regular_file(status))
    throw UserError(cat("cannot write '", out, "': it is there and not a regular file; give another name"));
  check_replaced_file(out, inputs);
  const std::string folder = folder_of(out);
  const bool is_file = fs::exists(folder, error) && !fs::is_directory(folder, error);
  if (is_file || ::access(folder.c_str(), W_OK | X_OK) != 0)
    throw UserError(cat("cannot write '", out, "': ", system_message(is_file ? ENOTDIR : errno),
                        ": its folder '", folder, "'; give a name in a folder that can be written"));
}

void write_array(const std::string& path, const std::string& name, const Shape& shape,
                 std::span<const float> values) {
  const CheckpointTensor tensor{.path = name, .shape = shape};
  NewFile file(path, {&tensor, 1});
  file.write(0, values);
  file.complete(nullptr);
  file.give_name();
}

}  // namespace flotilla
