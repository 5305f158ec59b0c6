// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "src/config/values.hpp"
#include "src/data/arrays/array.hpp"
#include "src/data/arrays/chunked_array.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/data_file.hpp"
#include "src/files/hdf5_handles.hpp"

namespace flotilla {

namespace {

using hdf5::check;

/// float16 as h5py writes it; HDF5 1.10 has no name for it.
bool is_float16(hid_t type) {
  if (H5Tget_class(type) != H5T_FLOAT || H5Tget_size(type) != 2) return false;
  std::array<std::size_t, 5> fields{};  // sign, exponent and its size, mantissa and its size, in bits
  check(H5Tget_fields(type, &fields[0], &fields[1], &fields[2], &fields[3], &fields[4]), "H5Tget_fields");
  return fields == std::array<std::size_t, 5>{15, 10, 5, 0, 10} && H5Tget_ebias(type) == 15;
}

std::optional<NumberType> number_type(hid_t type) {
  using Kind = NumberType::Kind;
  if (H5Tget_class(type) == H5T_ENUM) {  // h5py's bool
    const hdf5::Type base(H5Tget_super(type), "H5Tget_super");
    return number_type(base.id());
  }
  if (is_float16(type)) return NumberType{Kind::f16, H5Tget_order(type) == H5T_ORDER_BE};
  struct Row {
    Kind kind;
    hid_t little;
    hid_t big;
  };
  const std::array<Row, 10> rows = {
      Row{Kind::u8, H5T_STD_U8LE, H5T_STD_U8BE},      Row{Kind::i8, H5T_STD_I8LE, H5T_STD_I8BE},
      Row{Kind::u16, H5T_STD_U16LE, H5T_STD_U16BE},   Row{Kind::i16, H5T_STD_I16LE, H5T_STD_I16BE},
      Row{Kind::u32, H5T_STD_U32LE, H5T_STD_U32BE},   Row{Kind::i32, H5T_STD_I32LE, H5T_STD_I32BE},
      Row{Kind::u64, H5T_STD_U64LE, H5T_STD_U64BE},   Row{Kind::i64, H5T_STD_I64LE, H5T_STD_I64BE},
      Row{Kind::f32, H5T_IEEE_F32LE, H5T_IEEE_F32BE}, Row{Kind::f64, H5T_IEEE_F64LE, H5T_IEEE_F64BE}};
  for (const Row& row : rows) {
    if (check(H5Tequal(type, row.little), "H5Tequal") > 0) return NumberType{row.kind, false};
    if (check(H5Tequal(type, row.big), "H5Tequal") > 0) return NumberType{row.kind, H5Tget_size(type) > 1};
  }
  return std::nullopt;
}

ArrayForm form_of(hid_t dataset, const std::string& name) {
  ArrayForm form{.name = name, .extents = {}, .type = {}, .storage = {}};
  const hdf5::Type type(H5Dget_type(dataset), "H5Dget_type");
  const auto number = number_type(type.id());
  if (!number)
    throw UserError(cat(name,
                        ": does not hold numbers that can be read; write integers of 8 to 64 bits, float16, "
                        "float32 or float64"));
  form.type = *number;
  const hdf5::Space space(H5Dget_space(dataset), "H5Dget_space");
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int rank = check(H5Sget_simple_extent_ndims(space.id()), "H5Sget_simple_extent_ndims");
  check(H5Sget_simple_extent_dims(space.id(), extents.data(), nullptr), "H5Sget_simple_extent_dims");
  form.extents.assign(extents.begin(), extents.begin() + rank);
  check_form(form);
  return form;
}

FilterPipeline pipeline_of(hid_t creation, const ArrayForm& form) {
  FilterPipeline pipeline{.filters = {}, .number_bytes = static_cast<std::size_t>(form.type.bytes())};
  for (const hdf5::Filter& filter : hdf5::filters_of(creation)) {
    switch (filter.id) {
      case H5Z_FILTER_DEFLATE: pipeline.filters.push_back(ChunkFilter::deflate); break;
      case H5Z_FILTER_SHUFFLE: pipeline.filters.push_back(ChunkFilter::shuffle); break;
      case H5Z_FILTER_FLETCHER32: pipeline.filters.push_back(ChunkFilter::fletcher32); break;
      default:
        throw UserError(cat(form.name, ": its chunks went through the filter ", filter.id,
                            filter.name.empty() ? "" : cat(" (", config::printable(filter.name), ")"),
                            ", which is not read here: gzip, shuffle and fletcher32 are; ",
                            hdf5::remedy_of(filter)));
    }
  }
  return pipeline;
}

/// The time that HDF5 1.10 takes to list the positions of chunks grows with the square of their number: 1 s
/// for this many.
constexpr hsize_t max_listed = 8192;

/// Chunks that HDF5 finds when they are read, one thread at a time; they are decoded outside.
class Hdf5Chunks final : public ChunkReader {
 public:
  Hdf5Chunks(const std::string& path, const std::string& name, std::shared_ptr<const UnchangedFile> bytes)
      : path_(path), bytes_(std::move(bytes)) {
    file_.emplace(hdf5::open_to_read(path));
    const hdf5::PropertyList access = hdf5::within_the_file(H5P_DATASET_ACCESS);
    dataset_.emplace(H5Dopen2(file_->id(), name.c_str(), access.id()), "H5Dopen2");
  }
  Hdf5Chunks(const Hdf5Chunks&) = delete;
  Hdf5Chunks& operator=(const Hdf5Chunks&) = delete;
  ~Hdf5Chunks() override {
    const hdf5::Session session(path_);
    dataset_.reset();
    file_.reset();
  }

  bool read(std::span<const std::int64_t> place, std::vector<std::byte>& stored,
            std::uint32_t& skipped) const override {
    const std::vector<hsize_t> offset(place.begin(), place.end());
    const hdf5::Session session(path_);
    try {
      hsize_t bytes = 0;
      // For a chunk that was never written HDF5 1.10 returns this error, and other versions 0.
      if (H5Dget_chunk_storage_size(dataset_->id(), offset.data(), &bytes) < 0 &&
          hdf5::last_error().find("not allocated") == std::string::npos)
        hdf5::fail("H5Dget_chunk_storage_size", std::source_location::current());
      if (bytes == 0) return false;
      if (bytes > static_cast<hsize_t>(bytes_->size()))
        throw UserError(
            cat("'", path_, "': a chunk of ", bytes, " bytes lies beyond its end; copy or write it again"));
      stored.resize(bytes);
      check(H5Dread_chunk(dataset_->id(), H5P_DEFAULT, offset.data(), &skipped, stored.data()),
            "H5Dread_chunk");
      bytes_->check();
      return true;
    } catch (const hdf5::SystemRefusal& refusal) {
      throw UnreadableFile(path_, refusal.reason);
    } catch (const LibraryError& error) {
      bytes_->check();
      throw UserError(cat("'", path_, "' is damaged: ", error.what(), "; copy or write it again"));
    }
  }

 private:
  std::string path_;
  std::shared_ptr<const UnchangedFile> bytes_;
  std::optional<hdf5::File> file_;
  std::optional<hdf5::Dataset> dataset_;
};

/// The places of all chunks, or none where there are too many.
ChunkTable table_of(hid_t dataset, hid_t creation, const ArrayForm& form) {
  ChunkTable table{.extents = {}, .chunks = {}, .pipeline = pipeline_of(creation, form), .fill = {}};
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int rank = check(H5Pget_chunk(creation, H5S_MAX_RANK, extents.data()), "H5Pget_chunk");
  table.extents.assign(extents.begin(), extents.begin() + rank);
  unsigned options = 0;
  check(H5Pget_chunk_opts(creation, &options), "H5Pget_chunk_opts");
  if (rank != std::ssize(form.extents) || std::ranges::count(table.extents, 0) > 0)
    throw UserError(cat(form.name, ": its chunks ", extents_text(table.extents), " are not of its shape ",
                        form.shape_text(), "; copy or write the file again"));
  if ((options & H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS) != 0 && !table.pipeline.filters.empty())
    throw UserError(cat(form.name,
                        ": its chunks at the edges went through no filter, which is not read here; ",
                        hdf5::contiguous_remedy));
  hsize_t count = 1;  // of chunks; more than are listed are not counted
  for (std::size_t axis = 0; axis < table.extents.size(); ++axis) {
    const auto along = static_cast<hsize_t>(table.along(axis, form));
    count = count > 0 && along > max_listed / count ? max_listed + 1 : count * along;
  }
  const hdf5::Type type(H5Dget_type(dataset), "H5Dget_type");
  table.fill.resize(static_cast<std::size_t>(form.type.bytes()));
  H5D_fill_value_t kind = H5D_FILL_VALUE_UNDEFINED;  // then what was never written is 0
  check(H5Pfill_value_defined(creation, &kind), "H5Pfill_value_defined");
  if (kind != H5D_FILL_VALUE_UNDEFINED)
    check(H5Pget_fill_value(creation, type.id(), table.fill.data()), "H5Pget_fill_value");

  hsize_t written = 0;
  const hdf5::Space space(H5Dget_space(dataset), "H5Dget_space");
  check(H5Dget_num_chunks(dataset, space.id(), &written), "H5Dget_num_chunks");
  if (std::max(written, count) > max_listed) return table;
  table.chunks.resize(count);
  for (hsize_t k = 0; k < written; ++k) {
    std::array<hsize_t, H5S_MAX_RANK> offset{};
    unsigned skipped = 0;
    haddr_t address = 0;
    hsize_t bytes = 0;
    check(H5Dget_chunk_info(dataset, space.id(), k, offset.data(), &skipped, &address, &bytes),
          "H5Dget_chunk_info");
    std::int64_t number = 0;
    bool inside = true;  // a file of which rows were cut off may keep chunks beyond them
    for (std::size_t axis = 0; axis < table.extents.size(); ++axis) {
      const hsize_t at = offset[axis] / static_cast<hsize_t>(table.extents[axis]);
      inside = inside && at < static_cast<hsize_t>(table.along(axis, form));
      if (inside) number = number * table.along(axis, form) + static_cast<std::int64_t>(at);
    }
    if (inside && address == HADDR_UNDEF) continue;  // not written
    if (!std::in_range<std::int64_t>(address))
      throw UserError(
          cat(form.name, ": is damaged: a chunk lies beyond the end; copy or write the file again"));
    if (inside)
      table.chunks[static_cast<std::size_t>(number)] = {.begin = static_cast<std::int64_t>(address),
                                                        .bytes = static_cast<std::uint32_t>(bytes),
                                                        .skipped = skipped};
  }
  return table;
}

/// Adds the size of a user block in front of the file to the positions of the chunks of dataset `name`, if
/// HDF5 has left it out (as 1.10 does): a chunk that HDF5 reads itself shows that.
void add_user_block(const hdf5::File& file, hid_t dataset, const std::string& name,
                    const UnchangedFile& bytes, ChunkTable& table) {
  const hdf5::PropertyList creation(H5Fget_create_plist(file.id()), "H5Fget_create_plist");
  hsize_t block = 0;
  check(H5Pget_userblock(creation.id(), &block), "H5Pget_userblock");
  const auto written =
      std::ranges::find_if(table.chunks, [](const StoredChunk& chunk) { return chunk.begin >= 0; });
  if (block == 0 || written == table.chunks.end()) return;
  const hdf5::Space space(H5Dget_space(dataset), "H5Dget_space");
  hsize_t size = 0;
  haddr_t begin = 0;
  unsigned skipped = 0;
  std::array<hsize_t, H5S_MAX_RANK> offset{};
  check(H5Dget_chunk_info(dataset, space.id(), 0, offset.data(), &skipped, &begin, &size),
        "H5Dget_chunk_info");
  // A damaged file may have two chunks for one place: H5Dread_chunk looks for its own, and writes all of it.
  hsize_t found = 0;
  check(H5Dget_chunk_storage_size(dataset, offset.data(), &found), "H5Dget_chunk_storage_size");
  if (found != size || size > static_cast<hsize_t>(bytes.size()))
    throw UserError(cat(name, ": is damaged: a chunk has ", size, " bytes in the file's list and ", found,
                        " when it is looked for, of ", bytes.size(), " of the file; copy or write it again"));
  std::vector<std::byte> chunk(size);
  check(H5Dread_chunk(dataset, H5P_DEFAULT, offset.data(), &skipped, chunk.data()), "H5Dread_chunk");
  std::vector<std::byte> there(size);
  bytes.file().read_some(static_cast<std::int64_t>(begin), there);
  if (there == chunk) return;
  for (StoredChunk& each : table.chunks)
    if (each.begin >= 0) each.begin += static_cast<std::int64_t>(block);
}

std::string chunks_text(const ChunkTable& table) {
  const std::string filters = table.pipeline.text();
  return cat("chunks of ", extents_text(table.extents), filters.empty() ? "" : ", ", filters);
}

/// A copy in memory: of layouts that HDF5 keeps small.
std::unique_ptr<Array> read_whole(hid_t dataset, ArrayForm form) {
  const hdf5::Type type(H5Dget_type(dataset), "H5Dget_type");
  std::vector<std::byte> numbers(static_cast<std::size_t>(form.rows() * form.row_bytes()));
  check(H5Dread(dataset, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()), "H5Dread");
  File copy = File::in_memory(form.name);
  copy.append(numbers);
  return make_plain_array(std::move(form), std::make_shared<const UnchangedFile>(std::move(copy)), {});
}

/// Labels that are strings, of fixed or of variable length; null where the dataset has numbers.
std::unique_ptr<Array> read_texts(hid_t dataset, const std::string& name) {
  const hdf5::Type type(H5Dget_type(dataset), "H5Dget_type");
  if (H5Tget_class(type.id()) != H5T_STRING) return nullptr;
  const hdf5::Space space(H5Dget_space(dataset), "H5Dget_space");
  if (check(H5Sget_simple_extent_ndims(space.id()), "H5Sget_simple_extent_ndims") != 1)
    throw UserError(cat(name, ": its texts have another number of axes than one; write one label a sample"));
  const auto rows = static_cast<std::size_t>(H5Sget_simple_extent_npoints(space.id()));
  std::vector<std::string> texts;
  if (check(H5Tis_variable_str(type.id()), "H5Tis_variable_str") > 0) {
    std::vector<char*> strings(rows, nullptr);
    check(H5Dread(dataset, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, strings.data()), "H5Dread");
    for (const char* string : strings) texts.emplace_back(string == nullptr ? "" : string);
    check(H5Dvlen_reclaim(type.id(), space.id(), H5P_DEFAULT, strings.data()), "H5Dvlen_reclaim");
  } else {
    const std::size_t length = H5Tget_size(type.id());
    std::string letters(rows * length, '\0');
    check(H5Dread(dataset, type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, letters.data()), "H5Dread");
    const bool padded = H5Tget_strpad(type.id()) == H5T_STR_SPACEPAD;
    for (std::size_t row = 0; row < rows; ++row) {
      std::string text = letters.substr(row * length, length);
      text.erase(std::min(text.find('\0'), text.size()));
      if (padded) text.erase(text.find_last_not_of(' ') + 1);
      texts.push_back(std::move(text));
    }
  }
  return make_word_array({.name = name, .extents = {}, .type = {}, .storage = {}}, texts);
}

class Hdf5Arrays final : public ArrayFile {
 public:
  Hdf5Arrays(const std::string& path, std::shared_ptr<ChunkCache> cache)
      : path_(path),
        cache_(std::move(cache)),
        file_(std::make_shared<const UnchangedFile>(open_data_file(path))) {
    const hdf5::Session session(path_);
    try {
      const hdf5::File file = hdf5::open_to_read(path_);
      hdf5::NameList links;
      names_ = links.take(H5Lvisit(file.id(), H5_INDEX_NAME, H5_ITER_INC, add_name, &links), "H5Lvisit");
      std::erase_if(names_, [&](const std::string& name) { return !leads_to_array(file, name); });
    } catch (const hdf5::SystemRefusal& refusal) {
      throw UnreadableFile(path_, refusal.reason);
    } catch (const LibraryError& error) {
      refuse_other_kinds(path_, FileFormat::hdf5, "an HDF5 file");
      throw UserError(cat("'", path_, "' is not an HDF5 file, or is truncated or damaged at its start: ",
                          error.what(), "; copy or write it again"));
    }
  }

  std::vector<std::string> names() const override { return names_; }
  bool has(const std::string& name) const override {
    if (ArrayFile::has(without_slash(name))) return true;
    const hdf5::Session session(path_);
    return leads_to_array(hdf5::open_to_read(path_), name);
  }

  std::unique_ptr<Array> open(const std::string& given) const override {
    const std::string name = without_slash(given);
    const hdf5::Session session(path_);
    try {
      const hdf5::File file = hdf5::open_to_read(path_);
      const hdf5::PropertyList access = hdf5::within_the_file(H5P_DATASET_ACCESS);
      const hdf5::Dataset dataset(H5Dopen2(file.id(), name.c_str(), access.id()), "H5Dopen2");
      return open_dataset_of(file, dataset.id(), name);
    } catch (const hdf5::SystemRefusal& refusal) {
      throw UnreadableFile(path_, refusal.reason);
    } catch (const LibraryError& error) {
      throw UserError(
          cat("'", path_, "', ", name, ": is damaged: ", error.what(), "; copy or write the file again"));
    }
  }

 private:
  static std::string without_slash(const std::string& name) {
    return name.starts_with('/') ? name.substr(1) : name;
  }

  /// @tparam Info the type that H5Lvisit passes: HDF5 1.10 and 1.14 name it differently.
  template <class Info>
  static herr_t add_name(hid_t, const char* name, const Info*, void* names) {
    return static_cast<hdf5::NameList*>(names)->add(name);
  }

  /// Whether a path leads to an array, over links too, or to what open() says cannot be read.
  static bool leads_to_array(const hdf5::File& file, const std::string& name) {
    const hdf5::PropertyList access = hdf5::within_the_file(H5P_LINK_ACCESS);
    try {
      const hdf5::Object object(H5Oopen(file.id(), name.c_str(), access.id()), "H5Oopen");
      return H5Iget_type(object.id()) == H5I_DATASET;
    } catch (const hdf5::SystemRefusal&) {
      throw;
    } catch (const hdf5::NotRead&) {
      return true;
    } catch (const LibraryError&) {  // the dataset is missing or damaged, or a link is dangling
      H5L_info_t link{};
      return H5Lget_info(file.id(), name.c_str(), &link, access.id()) >= 0 && link.type == H5L_TYPE_HARD;
    }
  }

  std::unique_ptr<Array> open_dataset_of(const hdf5::File& file, hid_t dataset,
                                         const std::string& path_in_file) const {
    const std::string name = cat("'", path_, "', ", path_in_file);
    const hdf5::PropertyList creation(H5Dget_create_plist(dataset), "H5Dget_create_plist");
    const H5D_layout_t layout = check(H5Pget_layout(creation.id()), "H5Pget_layout");
    // Checked before HDF5 is asked for the shape, for which it would open other files.
    if (hdf5::lies_in_other_files(creation.id()))
      throw UserError(cat(name,
                          ": its numbers lie in other files, which is not read here; name those files, or ",
                          hdf5::contiguous_remedy));
    if (auto texts = read_texts(dataset, name)) return texts;
    ArrayForm form = form_of(dataset, name);
    if (layout == H5D_CHUNKED) {
      // The highest compression ratio of deflate. A file holds nothing of chunks that were never written:
      // some room is left for these.
      constexpr std::int64_t max_compressed = 1032;
      constexpr std::int64_t max_unwritten = std::int64_t{1} << 26;
      const std::int64_t bytes = form.rows() * form.row_bytes();
      if (bytes > max_unwritten && bytes / max_compressed > file_->size())
        throw UserError(cat(name, ": its shape ", form.shape_text(), " is more than a file of ",
                            file_->size(), " bytes holds; write all of it, or copy the file again"));
      ChunkTable table = table_of(dataset, creation.id(), form);
      if (table.chunks.empty()) {
        table.reader = std::make_shared<const Hdf5Chunks>(path_, path_in_file, file_);
      } else {
        add_user_block(file, dataset, name, *file_, table);
      }
      form.storage = chunks_text(table);
      return make_chunked_array(std::move(form), file_, std::move(table), cache_);
    }
    if (layout == H5D_COMPACT) {
      if (hdf5::is_cut_short(dataset, creation.id(), form.rows() * form.row_bytes()))
        throw UserError(cat(name, ": is damaged: it has fewer numbers than its shape ", form.shape_text(),
                            "; copy or write it again"));
      form.storage = "compact";
      return read_whole(dataset, std::move(form));
    }
    const haddr_t begin = H5Dget_offset(dataset);
    if (begin == HADDR_UNDEF) throw UserError(cat(name, ": was made, but never written; write it"));
    if (!std::in_range<std::int64_t>(begin))
      throw UserError(
          cat(name, ": is damaged: its numbers lie beyond the end; copy or write the file again"));
    form.storage = "contiguous";
    return make_plain_array(std::move(form), file_, {.begin = static_cast<std::int64_t>(begin)});
  }

  std::string path_;
  std::shared_ptr<ChunkCache> cache_;
  std::shared_ptr<const UnchangedFile> file_;
  std::vector<std::string> names_;
};

}  // namespace

std::unique_ptr<ArrayFile> open_hdf5_arrays(const std::string& path, std::shared_ptr<ChunkCache> cache) {
  return std::make_unique<Hdf5Arrays>(path, std::move(cache));
}

namespace {

constexpr ArrayFormat hdf5_format = {
    .wanted = [](bool /*training*/) { return "*.h5, *.hdf5, *.hdf or *.nc"; },
    .what_is =
        [](const std::string& name, bool /*training*/) {
          static constexpr std::array<std::string_view, 4> endings = {".h5", ".hdf5", ".hdf", ".nc"};
          return std::ranges::count(endings, small_ending(name)) > 0 ? InFolder::data : InFolder::other;
        },
    .open = [](const std::string& path,
               const ArrayOpening& opening) { return open_hdf5_arrays(path, opening.cache); }};

}  // namespace

const DataReader hdf5_reader = [] {
  DataReader reader = array_reader(DataKind::hdf5, hdf5_format);
  reader.inflate = inflated_chunks;
  return reader;
}();

}  // namespace flotilla
