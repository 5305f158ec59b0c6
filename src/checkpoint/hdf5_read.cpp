// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/hdf5_read.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <new>
#include <nlohmann/json.hpp>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/data/data_file.hpp"
#include "src/data/mistake_list.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"
#include "src/files/hdf5_handles.hpp"

namespace flotilla::hdf5 {

namespace {

/// @throws UserError if values of the dataset lie in other files
void require_own_values(hid_t creation) {
  if (lies_in_other_files(creation))
    throw UserError(cat("has its values in other files, which are not read: ", contiguous_remedy));
}

/// @throws UserError if the file is recognised as another than an HDF5 file
void refuse_other_than_hdf5(const std::string& path) {
  const FileKind kind = kind_of_path(path);
  if (kind.name == "a PyTorch file" || kind.name == "a Python pickle" || kind.name == "a file of safetensors")
    throw UserError(cat("'", path, "' is ", kind.name,
                        ", not an HDF5 file: python3 scripts/torch_to_hdf5.py ", path, " ",
                        std::filesystem::path(path).replace_extension(".h5").string(), " makes one of it"));
  refuse_other_kinds(path, FileFormat::hdf5, "a checkpoint or a file of weights (HDF5)");
}

Attribute open_attribute(hid_t object, const char* name) {
  if (check(H5Aexists(object, name), "H5Aexists") == 0) throw UserError(cat("has no attribute ", name));
  return {H5Aopen(object, name, H5P_DEFAULT), "H5Aopen"};
}

void require_scalar(const Attribute& attribute, H5T_class_t wanted, hid_t type, const char* name) {
  Space space(H5Aget_space(attribute.id()), "H5Aget_space");
  if (H5Tget_class(type) != wanted || H5Sget_simple_extent_npoints(space.id()) != 1)
    throw UserError(cat("has an attribute ", name, " of the wrong type"));
}

std::int64_t read_integer(hid_t object, const char* name) {
  const Attribute attribute = open_attribute(object, name);
  const Type type(H5Aget_type(attribute.id()), "H5Aget_type");
  require_scalar(attribute, H5T_INTEGER, type.id(), name);
  std::int64_t value = 0;
  check(H5Aread(attribute.id(), H5T_NATIVE_INT64, &value), "H5Aread");
  return value;
}

std::string read_text(hid_t object, const char* name, std::int64_t file_bytes) {
  const Attribute attribute = open_attribute(object, name);
  const Type type(H5Aget_type(attribute.id()), "H5Aget_type");
  require_scalar(attribute, H5T_STRING, type.id(), name);
  const std::size_t size = H5Tget_size(type.id());
  if (check(H5Tis_variable_str(type.id()), "H5Tis_variable_str") > 0 ||
      static_cast<std::int64_t>(size) > file_bytes)
    throw UserError(cat("has an attribute ", name, " of the wrong type"));
  std::string text(size, '\0');
  check(H5Aread(attribute.id(), type.id(), text.data()), "H5Aread");
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

/// An attribute of JSON text, turned by `convert` into what it is to be.
template <class Convert>
auto read_json(hid_t object, const char* name, std::int64_t file_bytes, Convert convert) {
  const std::string text = read_text(object, name, file_bytes);
  try {
    return convert(nlohmann::json::parse(text));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // of JSON, or for a word that is not a number
    throw UserError(cat("has an attribute ", name, " that is not JSON of the right kind"));
  }
}

std::optional<std::uint64_t> read_checksum(hid_t object, std::int64_t file_bytes) {
  if (check(H5Aexists(object, "xxh3"), "H5Aexists") == 0) return std::nullopt;
  const auto checksum = from_hexadecimal(read_text(object, "xxh3", file_bytes));
  if (!checksum) throw UserError("has an attribute xxh3 that is not 16 hexadecimal digits");
  return checksum;
}

/// Runs `part`; what it throws becomes a problem of the index. NewerSchema, NotRead and SystemRefusal pass.
void attempt(std::vector<std::string>& problems, const std::function<void()>& part) {
  try {
    part();
  } catch (const NewerSchema&) {
    throw;
  } catch (const NotRead&) {
    throw;
  } catch (const SystemRefusal&) {
    throw;
  } catch (const std::runtime_error& error) {
    problems.emplace_back(error.what());
  }
}

void read_state(hid_t root, FileIndex& index) {
  CheckpointState& state = index.state;
  const auto integer = [&](const char* name, std::int64_t& value) {
    attempt(index.problems, [&] { value = read_integer(root, name); });
  };
  integer("schema", state.schema);
  if (state.schema > CheckpointState::newest_schema)
    throw NewerSchema(cat("'", index.path, "' was written by a newer Flotilla (schema ", state.schema,
                          "; this one reads up to ", CheckpointState::newest_schema, "): use that version"));
  integer("step", state.step);
  integer("epoch", state.position.epoch);
  integer("offset", state.position.offset);
  integer("samples", state.samples);
  integer("seed", state.seed);
  integer("optimizer_step", state.optimizer_step);
  std::int64_t inference_only = 0;
  integer("inference_only", inference_only);
  state.inference_only = inference_only != 0;
  attempt(index.problems, [&] { state.deck = read_text(root, "deck", index.bytes); });
  const auto json = [&](const char* name, auto& value, auto convert) {
    attempt(index.problems, [&] { value = read_json(root, name, index.bytes, convert); });
  };
  const auto texts = [](const nlohmann::json& all) { return all.get<std::map<std::string, std::string>>(); };
  json("versions", state.versions, texts);
  json("choices", state.choices, [&texts](const nlohmann::json& all) {
    CheckpointState read;
    read.choices = texts(all);
    class_names_of(read);  // they are JSON as well
    return read.choices;
  });
  const auto parts = [&](const char* name, std::vector<CheckpointPart>& value) {
    json(name, value, [](const nlohmann::json& all) { return all.get<std::vector<CheckpointPart>>(); });
    const auto bad = std::ranges::find_if_not(value, is_part_name, &CheckpointPart::name);
    if (bad == value.end()) return;
    index.problems.push_back(
        cat("its attribute ", name, " names '", bad->name, "', which is no name of a part"));
    value.clear();  // no such file is to be opened
  };
  if (state.schema >= 2) {
    json("numbers", state.numbers, numbers_of);
    parts("parts", state.parts);
    integer("training_samples", state.training_samples);
  }
  if (state.schema >= 3) parts("server_parts", state.server_parts);
  attempt(index.problems, [&] { index.checksum = read_checksum(root, index.bytes); });
}

/// Whether a group lists its members as they were written.
bool keeps_order(hid_t group) {
  PropertyList creation(H5Gget_create_plist(group), "H5Gget_create_plist");
  unsigned order = 0;
  check(H5Pget_link_creation_order(creation.id(), &order), "H5Pget_link_creation_order");
  return (order & H5P_CRT_ORDER_INDEXED) != 0;
}

/// @tparam Info the type that H5Literate passes: HDF5 1.10 and 1.14 name it differently.
template <class Info>
herr_t add_name(hid_t, const char* name, const Info*, void* names) {
  return static_cast<NameList*>(names)->add(name);
}

/// The names in a group: in the order of creation if the file keeps it, otherwise by name.
std::vector<std::string> names_in(hid_t group) {
  const H5_index_t by = keeps_order(group) ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME;
  NameList names;
  return names.take(H5Literate(group, by, H5_ITER_INC, nullptr, add_name, &names), "H5Literate");
}

/// @throws UserError for shapes that no model has.
Shape read_shape(hid_t dataset) {
  Space space(H5Dget_space(dataset), "H5Dget_space");
  const int rank = check(H5Sget_simple_extent_ndims(space.id()), "H5Sget_simple_extent_ndims");
  if (rank > Shape::max_rank)
    throw UserError(cat("has ", rank, " axes; at most ", Shape::max_rank, " are allowed"));
  std::array<hsize_t, Shape::max_rank> extents{};
  check(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), "H5Sget_simple_extent_dims");
  // Any product of four extents below this limit, in bytes, still fits 64 bits if it stays below it at each
  // axis.
  constexpr std::uint64_t limit = std::uint64_t{1} << 42;
  std::uint64_t size = 1;
  Shape shape;
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank); ++axis) {
    if (extents[axis] > limit || (extents[axis] != 0 && size > limit / extents[axis]))
      throw UserError("has a shape too large to be true");
    size *= extents[axis];
    shape.append(static_cast<std::int64_t>(extents[axis]));
  }
  return shape;
}

/// The position of the values if they are contiguous and little-endian.
std::optional<std::int64_t> plain_position(hid_t dataset, const Type& type, const StoredTensor& tensor,
                                           std::int64_t file_bytes) {
  PropertyList creation(H5Dget_create_plist(dataset), "H5Dget_create_plist");
  const hid_t plain = tensor.element == Element::unsigned64 ? H5T_STD_U64LE : H5T_IEEE_F32LE;
  if (check(H5Tequal(type.id(), plain), "H5Tequal") == 0 || H5Pget_layout(creation.id()) != H5D_CONTIGUOUS)
    return std::nullopt;
  const std::int64_t bytes = tensor.bytes();
  if (bytes == 0) return 0;
  const haddr_t position = H5Dget_offset(dataset);
  if (position == HADDR_UNDEF) return std::nullopt;  // Never written: HDF5 knows the fill value
  if (static_cast<std::int64_t>(position) < 0 || static_cast<std::int64_t>(position) > file_bytes - bytes)
    throw UserError("lies beyond the end of the file");
  return static_cast<std::int64_t>(position);
}

/// The highest compression ratio of deflate.
constexpr std::int64_t max_compressed = 1032;

/// @throws UserError if HDF5 could make more of the dataset's bytes than one deflate does, or would need more
/// than itself to read them
void require_known_filters(hid_t creation) {
  std::int64_t deflates = 0;
  for (const Filter& filter : filters_of(creation)) {
    if (filter.id == H5Z_FILTER_SHUFFLE || filter.id == H5Z_FILTER_FLETCHER32) continue;
    if (filter.id != H5Z_FILTER_DEFLATE || ++deflates > 1)
      throw UserError(cat("went through the filter ", filter.id,
                          filter.name.empty() ? "" : cat(" (", shown_path(filter.name), ")"),
                          deflates > 1 ? " twice" : "", ": shuffle, fletcher32 and one gzip are read; ",
                          remedy_of(filter)));
  }
}

StoredTensor read_tensor(hid_t dataset, const std::string& path, std::int64_t file_bytes) {
  StoredTensor tensor{.path = path, .shape = {}, .checksum = {}, .position = {}, .problem = {}};
  if (is_of_rows(path) && path.ends_with("/keys")) tensor.element = Element::unsigned64;
  try {
    Type type(H5Dget_type(dataset), "H5Dget_type");
    const bool integers = tensor.element == Element::unsigned64;
    if (H5Tget_class(type.id()) != (integers ? H5T_INTEGER : H5T_FLOAT))
      throw UserError(cat("is not a set of ", integers ? "integers" : "floating-point numbers"));
    const PropertyList creation(H5Dget_create_plist(dataset), "H5Dget_create_plist");
    require_own_values(creation.id());  // before HDF5 looks for the extents of other files
    if (H5Pget_layout(creation.id()) == H5D_CHUNKED) require_known_filters(creation.id());
    tensor.shape = read_shape(dataset);
    const auto bytes = tensor.shape.size() * static_cast<std::int64_t>(H5Tget_size(type.id()));
    if (is_cut_short(dataset, creation.id(), bytes)) throw UserError("has fewer values than its shape");
    tensor.checksum = read_checksum(dataset, file_bytes);
    tensor.position = plain_position(dataset, type, tensor, file_bytes);
    if (!tensor.position && tensor.bytes() / max_compressed > file_bytes)
      throw UserError(cat("claims ", tensor.bytes(), " bytes of values, more than a file of ", file_bytes,
                          " bytes can hold"));
    // Tables are read piece by piece, which only plain values can be.
    if (is_of_rows(path) && !tensor.position)
      throw UserError(cat("is not one contiguous piece of little-endian ",
                          integers ? "unsigned 64-bit integers" : "float32"));
  } catch (const NotRead&) {
    throw;
  } catch (const SystemRefusal&) {
    throw;
  } catch (const std::runtime_error& error) {
    tensor.problem = error.what();
  }
  return tensor;
}

/// torch keeps such a counter with each batch norm; it is not used in computations.
bool is_counter(const std::string& name) {
  return name.ends_with(".num_batches_tracked");
}

/// Lists the datasets of a group that may be absent, and of the groups in it down to `depth`.
/// @param names_left of all groups together: many links to one group need few bytes
void read_group(hid_t file, const std::string& path, int depth, FileIndex& index, std::int64_t& names_left) {
  const PropertyList links = within_the_file(H5P_LINK_ACCESS);
  if (check(H5Lexists(file, path.c_str(), links.id()), "H5Lexists") == 0) return;
  const PropertyList access = within_the_file(H5P_GROUP_ACCESS);
  Group group(H5Gopen2(file, path.c_str(), access.id()), "H5Gopen2");
  if (path == "parameters" || path == "statistics")
    index.keeps_order = index.keeps_order && keeps_order(group.id());
  for (const std::string& name : names_in(group.id())) {
    if (names_left-- <= 0) throw UserError(cat("its /", path, " names more datasets than the file can hold"));
    if (is_counter(name)) continue;
    const std::string child = cat(path, "/", name);
    attempt(index.problems, [&] {
      Object object(H5Oopen(group.id(), name.c_str(), links.id()), "H5Oopen");
      const H5I_type_t kind = H5Iget_type(object.id());
      if (kind == H5I_DATASET) index.tensors.push_back(read_tensor(object.id(), child, index.bytes));
      if (kind == H5I_GROUP && depth > 1) read_group(file, child, depth - 1, index, names_left);
    });
  }
}

}  // namespace

FileIndex read_index(const std::string& path) {
  FileIndex index;
  index.path = path;
  index.bytes = flotilla::File::open(path).size();
  const Session session(path);
  try {
    const File file = open_to_read(path);
    index.has_state = check(H5Aexists(file.id(), "schema"), "H5Aexists") > 0;
    if (index.has_state) read_state(file.id(), index);
    constexpr std::int64_t min_bytes_of_name = 64;  // an entry of a group and the header of an object
    std::int64_t names_left = index.bytes / min_bytes_of_name;
    for (const char* group : {"parameters", "statistics"})
      attempt(index.problems, [&] { read_group(file.id(), group, 1, index, names_left); });
    for (const char* group : {"optimizer", "strategy", "rows"})
      attempt(index.problems, [&] { read_group(file.id(), group, 2, index, names_left); });
    std::int64_t bytes = 0;  // of all together: links may name one dataset many times
    for (const StoredTensor& tensor : index.tensors) {
      if (tensor.problem.empty()) bytes += tensor.bytes();
      if (bytes / max_compressed > index.bytes) break;
    }
    if (bytes / max_compressed > index.bytes)
      index.problems.push_back(cat("its datasets claim together more bytes of values than a file of ",
                                   index.bytes, " bytes can hold"));
  } catch (const SystemRefusal& refusal) {
    throw UnreadableFile(path, refusal.reason);
  } catch (const LibraryError& error) {
    refuse_other_than_hdf5(path);
    throw UserError(cat("'", path, "' is not an HDF5 file, or is truncated or damaged at its start: ",
                        error.what(), "; give another file, or copy it again"));
  }
  return index;
}

void read_converted(const std::string& path, const StoredTensor& tensor, std::span<float> to) {
  require(static_cast<std::int64_t>(to.size()) == tensor.shape.size(), "wrong size for ", tensor.path);
  const Session session(path);
  try {
    const File file = open_to_read(path);
    const PropertyList access = within_the_file(H5P_DATASET_ACCESS);
    const Dataset dataset(H5Dopen2(file.id(), tensor.path.c_str(), access.id()), "H5Dopen2");
    check(H5Dread(dataset.id(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, to.data()), "H5Dread");
  } catch (const SystemRefusal& refusal) {
    throw UnreadableFile(path, refusal.reason);
  } catch (const LibraryError& error) {
    throw UserError(cat("'", path, "' is damaged at /", tensor.path, ": ", error.what()));
  }
}

}  // namespace flotilla::hdf5
