// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/write_checkpoint.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/file_index.hpp"
#include "src/checkpoint/hdf5_read.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"
#include "src/files/folders.hpp"
#include "src/files/hdf5_handles.hpp"

namespace flotilla::hdf5 {

namespace {

/// Bytes for an offset of a file.
struct Piece {
  std::int64_t position = 0;
  std::vector<std::byte> bytes;
};

/// An HDF5 file without the values of its datasets.
struct FilePlan {
  std::vector<Piece> structure;         ///< Headers, groups, attributes
  std::vector<std::int64_t> positions;  ///< Position of each tensor's values, contiguous and
                                        ///< little-endian; whatever the state and the checksums are
  std::int64_t bytes = 0;               ///< Size of the whole file
};

/// Creation properties without time stamps, so that equal contents give equal bytes.
PropertyList timeless(hid_t kind) {
  PropertyList creation(H5Pcreate(kind), "H5Pcreate");
  check(H5Pset_obj_track_times(creation.id(), false), "H5Pset_obj_track_times");
  return creation;
}

/// Creates an HDF5 file whose bytes go to `memory`.
File create_file(const flotilla::File& memory) {
  PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "H5Pcreate");
  check(H5Pset_driver(access.id(), H5FD_SEC2, nullptr), "H5Pset_driver");
  check(H5Pset_fclose_degree(access.id(), H5F_CLOSE_STRONG), "H5Pset_fclose_degree");
  check(H5Pset_file_locking(access.id(), false, true), "H5Pset_file_locking");
  // The format of HDF5 1.8: its headers carry checksums, and every later version reads it.
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_V18, H5F_LIBVER_V18), "H5Pset_libver_bounds");
  const PropertyList creation = timeless(H5P_FILE_CREATE);
  check(H5Pset_link_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
        "H5Pset_link_creation_order");
  // HDF5 opens a file by its true name, which memory has not. So it opens /dev/null, and then its descriptor
  // is exchanged. The first 48 bytes, written between the two, are written again when the file is closed.
  File file(H5Fcreate("/dev/null", H5F_ACC_TRUNC, creation.id(), access.id()), "H5Fcreate");
  void* descriptor = nullptr;
  check(H5Fget_vfd_handle(file.id(), H5P_DEFAULT, &descriptor), "H5Fget_vfd_handle");
  if (::dup3(memory.descriptor(), *static_cast<int*>(descriptor), O_CLOEXEC) < 0)
    throw LibraryError("dup3", system_message(errno));
  return file;
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  Space space(H5Screate(H5S_SCALAR), "H5Screate");
  Attribute attribute(H5Acreate2(object, name, H5T_STD_I64LE, space.id(), H5P_DEFAULT, H5P_DEFAULT),
                      "H5Acreate2");
  check(H5Awrite(attribute.id(), H5T_NATIVE_INT64, &value), "H5Awrite");
}

void write_attribute(hid_t object, const char* name, const std::string& text) {
  Type type(H5Tcopy(H5T_C_S1), "H5Tcopy");
  // A string of no bytes is not allowed: the empty one is a single zero.
  check(H5Tset_size(type.id(), std::max<std::size_t>(text.size(), 1)), "H5Tset_size");
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "H5Tset_strpad");
  check(H5Tset_cset(type.id(), H5T_CSET_UTF8), "H5Tset_cset");
  Space space(H5Screate(H5S_SCALAR), "H5Screate");
  Attribute attribute(H5Acreate2(object, name, type.id(), space.id(), H5P_DEFAULT, H5P_DEFAULT),
                      "H5Acreate2");
  check(H5Awrite(attribute.id(), type.id(), text.c_str()), "H5Awrite");
}

void write_state(hid_t root, const CheckpointState& state) {
  write_attribute(root, "schema", state.schema);
  write_attribute(root, "step", state.step);
  write_attribute(root, "epoch", state.position.epoch);
  write_attribute(root, "offset", state.position.offset);
  write_attribute(root, "samples", state.samples);
  write_attribute(root, "seed", state.seed);
  write_attribute(root, "optimizer_step", state.optimizer_step);
  write_attribute(root, "inference_only", std::int64_t{state.inference_only});
  write_attribute(root, "deck", state.deck);
  write_attribute(root, "versions", nlohmann::json(state.versions).dump());
  write_attribute(root, "choices", nlohmann::json(state.choices).dump());
  if (state.schema < 2) return;
  write_attribute(root, "numbers", json_of(state.numbers).dump());
  write_attribute(root, "parts", nlohmann::json(state.parts).dump());
  write_attribute(root, "training_samples", state.training_samples);
  if (state.schema < 3) return;
  write_attribute(root, "server_parts", nlohmann::json(state.server_parts).dump());
}

/// The groups of the file by path, made when first asked for.
class Groups {
 public:
  explicit Groups(hid_t file) : file_(file) {}
  /// The group that holds the object at `path`.
  hid_t parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return file_;
    const std::string parent = path.substr(0, slash);
    if (const auto known = groups_.find(parent); known != groups_.end()) return known->second.id();
    const PropertyList creation = timeless(H5P_GROUP_CREATE);
    check(H5Pset_link_creation_order(creation.id(), H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED),
          "H5Pset_link_creation_order");
    Group group(H5Gcreate2(parent_of(parent), name_of(parent), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                "H5Gcreate2");
    return groups_.emplace(parent, std::move(group)).first->second.id();
  }
  static const char* name_of(const std::string& path) { return path.c_str() + path.rfind('/') + 1; }

 private:
  hid_t file_;
  std::map<std::string, Group> groups_;
};

/// Makes a dataset and allocates its values. Returns their position in the file.
std::int64_t make_dataset(Groups& groups, const StoredTensor& tensor) {
  std::vector<hsize_t> extents;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis)
    extents.push_back(static_cast<hsize_t>(tensor.shape[axis]));
  Space space(extents.empty() ? H5Screate(H5S_SCALAR)
                              : H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr),
              "H5Screate_simple");
  const PropertyList creation = timeless(H5P_DATASET_CREATE);
  check(H5Pset_layout(creation.id(), H5D_CONTIGUOUS), "H5Pset_layout");
  check(H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY), "H5Pset_alloc_time");
  check(H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER), "H5Pset_fill_time");
  Dataset dataset(H5Dcreate2(groups.parent_of(tensor.path), Groups::name_of(tensor.path),
                             tensor.element == Element::unsigned64 ? H5T_STD_U64LE : H5T_IEEE_F32LE,
                             space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT),
                  "H5Dcreate2");
  write_attribute(dataset.id(), "xxh3", hexadecimal(tensor.checksum.value()));
  if (tensor.shape.size() == 0) return 0;
  const haddr_t position = H5Dget_offset(dataset.id());
  if (position == HADDR_UNDEF) fail("H5Dget_offset", std::source_location::current());
  return static_cast<std::int64_t>(position);
}

/// @throws UserError if the limit of this process is below what the file may need.
void check_size_limit(std::span<const StoredTensor> tensors, const CheckpointState* state) {
  std::uint64_t needed = 1 << 20;
  if (state != nullptr) needed += state->deck.size();
  for (const StoredTensor& tensor : tensors) needed += 4096 + static_cast<std::uint64_t>(tensor.bytes());
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < needed)
    throw UserError(cat("this process may write files of at most ", limit.rlim_cur,
                        " bytes (ulimit -f), the ", "file may need ", needed));
}

/// Everything in the file outside the values of datasets.
std::vector<Piece> pieces_between(const flotilla::File& memory, std::span<const StoredTensor> tensors,
                                  const FilePlan& plan) {
  std::map<std::int64_t, std::int64_t> values;  // position → bytes
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (const std::int64_t bytes = tensors[i].bytes(); bytes > 0) values[plan.positions[i]] = bytes;
  values[plan.bytes] = 0;
  std::vector<Piece> pieces;
  std::int64_t begin = 0;
  for (const auto& [position, bytes] : values) {
    require(position >= begin, "datasets overlap in the file");
    if (position > begin) {
      pieces.push_back({begin, std::vector<std::byte>(static_cast<std::size_t>(position - begin))});
      memory.read(begin, pieces.back().bytes);
    }
    begin = position + bytes;
  }
  return pieces;
}

/// Lays out a file with these tensors in this order, their checksums (each must have one) and, if not null,
/// the state. HDF5 writes into memory only, never to the disk: a write that fails, on a full disk for
/// example, leaves the library with a file that it can neither complete nor close.
/// @throws UserError if the file may not become as long as that (ulimit -f).
FilePlan plan_file(std::span<const StoredTensor> tensors, const CheckpointState* state) {
  check_size_limit(tensors, state);
  const Session session;
  const flotilla::File memory = flotilla::File::in_memory("checkpoint structure");
  FilePlan plan;
  {
    File file = create_file(memory);
    Groups groups(file.id());
    for (const StoredTensor& tensor : tensors) plan.positions.push_back(make_dataset(groups, tensor));
    // The state is written after the datasets, so that their positions do not depend on it.
    if (state != nullptr) {
      write_state(file.id(), *state);
      write_attribute(file.id(), "xxh3", hexadecimal(index_checksum(*state, tensors)));
    }
    file.close("H5Fclose");
  }
  plan.bytes = memory.size_now();
  plan.structure = pieces_between(memory, tensors, plan);
  return plan;
}

}  // namespace

}  // namespace flotilla::hdf5

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
  return cat(path, ".tmp-", ::getpid(), "-", own_host_name());
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

std::string hdf5_version() {
  const hdf5::Session session;
  return hdf5::library_version();
}

}  // namespace flotilla
