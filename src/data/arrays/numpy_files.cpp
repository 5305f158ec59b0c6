// SPDX-License-Identifier: Apache-2.0
#include "src/data/arrays/numpy_files.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/arrays/array.hpp"
#include "src/data/arrays/open_arrays.hpp"
#include "src/data/arrays/zip_index.hpp"
#include "src/data/data_file.hpp"
#include "src/data/mistake_list.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
constexpr std::size_t max_header_bytes = 1 << 16;
constexpr const char* again = "; copy the file again, or write it with numpy.save";

[[noreturn]] void fail_at(const std::string& name, const std::string& what) {
  throw UserError(cat(name, ": ", what));
}

/// The header's text and where the numbers begin.
struct Header {
  std::string text;
  std::int64_t end = 0;
};

Header read_header(const std::string& name, const UnchangedFile& file, std::int64_t begin,
                   std::int64_t bytes) {
  std::array<std::uint8_t, 12> start{};
  if (bytes < std::ssize(start)) fail_at(name, cat("is truncated: it has ", bytes, " bytes", again));
  file.read(begin, std::as_writable_bytes(std::span(start)));
  if (!std::equal(npy_magic.begin(), npy_magic.end(), start.begin(),
                  [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; }))
    fail_at(name, "is no array in NumPy's format .npy; write it with numpy.save");
  const int version = start[6];
  if (version < 1 || version > 3)
    fail_at(name, cat("has version ", version,
                      " of NumPy's format, and 1 to 3 are read; write it with numpy.save"));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::size_t length = 0;
  for (std::size_t k = length_bytes; k-- > 0;) length = length << 8 | start[8 + k];
  const auto first = static_cast<std::int64_t>(8 + length_bytes);
  if (length > max_header_bytes || first + static_cast<std::int64_t>(length) > bytes)
    fail_at(name, cat("is truncated or damaged: its header promises ", length, " bytes of text", again));
  Header header{.text = std::string(length, '\0'), .end = first + static_cast<std::int64_t>(length)};
  file.read(begin + first, std::as_writable_bytes(std::span(header.text)));
  return header;
}

/// The text after 'key': in the dictionary, without leading blanks; empty: there is none.
std::string_view value_behind(std::string_view dictionary, std::string_view key) {
  for (const char quote : {'\'', '"'}) {
    const std::string quoted = cat(quote, key, quote);
    const std::size_t at = dictionary.find(quoted);
    if (at == std::string_view::npos) continue;
    std::string_view rest = dictionary.substr(at + quoted.size());
    const std::size_t begin = rest.find_first_not_of(" :");
    return begin == std::string_view::npos ? std::string_view() : rest.substr(begin);
  }
  return {};
}

/// "'<f4'" in quotes of either kind.
std::optional<NumberType> type_of(std::string_view descr) {
  using Kind = NumberType::Kind;
  if (descr.size() < 5 || (descr[0] != '\'' && descr[0] != '"') || descr[4] != descr[0]) return std::nullopt;
  const char order = descr[1];
  const std::string_view code = descr.substr(2, 2);
  static constexpr std::array<std::pair<std::string_view, Kind>, 12> codes = {{{"u1", Kind::u8},
                                                                               {"b1", Kind::i8},
                                                                               {"i1", Kind::i8},
                                                                               {"u2", Kind::u16},
                                                                               {"i2", Kind::i16},
                                                                               {"u4", Kind::u32},
                                                                               {"i4", Kind::i32},
                                                                               {"u8", Kind::u64},
                                                                               {"i8", Kind::i64},
                                                                               {"f2", Kind::f16},
                                                                               {"f4", Kind::f32},
                                                                               {"f8", Kind::f64}}};
  const auto found = std::ranges::find(codes, code, [](const auto& row) { return row.first; });
  if (found == codes.end() || std::string_view("<>|=").find(order) == std::string_view::npos)
    return std::nullopt;
  NumberType type{.kind = found->second};
  type.big_endian = order == '>' && type.bytes() > 1;
  return type;
}

/// Characters of "'<U7'" or "'|S7'", and their number.
std::optional<std::pair<NumberType, std::int64_t>> text_type_of(std::string_view descr) {
  if (descr.size() < 5 || (descr[2] != 'U' && descr[2] != 'S')) return std::nullopt;
  std::int64_t length = 0;
  const std::string_view digits = descr.substr(3, descr.find(descr[0], 3) - 3);
  std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (length < 1 || length > 65536) return std::nullopt;
  const bool wide = descr[2] == 'U';
  return std::pair(NumberType{.kind = wide ? NumberType::Kind::u32 : NumberType::Kind::u8,
                              .big_endian = wide && descr[1] == '>'},
                   length);
}

void append_utf8(std::uint32_t letter, std::string& text) {
  const auto add = [&](std::uint32_t bits) { text += static_cast<char>(bits); };
  if (letter < 0x80) return add(letter);
  if (letter >= 0x10000) add(0xF0U | letter >> 18U);
  if (letter >= 0x10000) add(0x80U | (letter >> 12U & 0x3FU));
  if (letter >= 0x800 && letter < 0x10000) add(0xE0U | letter >> 12U);
  if (letter >= 0x800) add(0x80U | (letter >> 6U & 0x3FU));
  if (letter < 0x800) add(0xC0U | letter >> 6U);
  add(0x80U | (letter & 0x3FU));
}

/// The texts whose characters are the rows of an array.
std::unique_ptr<Array> texts_of(const Array& letters) {
  const ArrayForm& form = letters.form();
  std::vector<std::byte> row(static_cast<std::size_t>(form.row_bytes()));
  std::vector<std::int64_t> codes(static_cast<std::size_t>(form.row_values()));
  std::vector<std::string> texts;
  for (std::int64_t i = 0; i < form.rows(); ++i) {
    letters.read(i, 1, row);
    to_native_order(form.type, row);
    to_integers(form.type, row, codes);
    while (!codes.empty() && codes.back() == 0) codes.pop_back();
    texts.emplace_back();
    for (const std::int64_t code : codes)
      form.type.is_byte() ? void(texts.back() += static_cast<char>(code))
                          : append_utf8(static_cast<std::uint32_t>(code), texts.back());
    codes.resize(static_cast<std::size_t>(form.row_values()));
  }
  return make_word_array(form, texts);
}

/// "(60000, 28, 28)"; nothing where it is no tuple of integers.
std::optional<std::vector<std::int64_t>> shape_of(std::string_view text) {
  if (!text.starts_with('(')) return std::nullopt;
  std::vector<std::int64_t> extents;
  for (std::size_t at = 1; at < text.size();) {
    if (text[at] == ')') return extents;
    if (text[at] == ',' || text[at] == ' ' || text[at] == 'L') {
      ++at;
      continue;
    }
    std::int64_t extent = 0;
    const auto [stop, error] = std::from_chars(text.data() + at, text.data() + text.size(), extent);
    if (error != std::errc()) return std::nullopt;
    extents.push_back(extent);
    at = static_cast<std::size_t>(stop - text.data());
  }
  return std::nullopt;
}

}  // namespace

NpyForm npy_form(const std::string& name, const UnchangedFile& file, std::int64_t begin, std::int64_t bytes) {
  const Header header = read_header(name, file, begin, bytes);
  const std::string_view descr = value_behind(header.text, "descr");
  auto type = type_of(descr);
  const auto text = type ? std::nullopt : text_type_of(descr);
  if (text) type = text->first;
  if (!type)
    fail_at(name, cat("its numbers have the type ", shown(descr.substr(0, descr.find_first_of(",}"))),
                      "; write integers of 8 to 64 bits, float16, float32 or float64"));
  auto extents = shape_of(value_behind(header.text, "shape"));
  if (!extents) fail_at(name, cat("has a damaged header ", shown(header.text), again));
  if (text && extents->size() != 1)
    fail_at(name, "its texts have more than one axis; write one label a sample");
  if (text) extents->push_back(text->second);
  ArrayForm form{.name = name, .extents = *extents, .type = *type, .storage = "contiguous"};
  check_form(form);
  if (value_behind(header.text, "fortran_order").starts_with("True") && form.extents.size() > 1)
    fail_at(
        name,
        "lies in Fortran order, in which samples do not lie together; write numpy.ascontiguousarray(array)");
  const std::int64_t there = bytes - header.end;
  const std::int64_t wanted = form.rows() * form.row_bytes();
  if (there != wanted)
    fail_at(name, cat(there < wanted ? "is truncated: " : "is too long: ", "its header promises ", wanted,
                      " bytes of numbers, and ", there, " follow", again));
  return {std::move(form), header.end, text.has_value()};
}

std::unique_ptr<Array> open_npy(const std::string& name, std::shared_ptr<const UnchangedFile> file,
                                std::int64_t begin, std::int64_t bytes) {
  NpyForm array = npy_form(name, *file, begin, bytes);
  auto plain = make_plain_array(std::move(array.form), std::move(file), {.begin = begin + array.begin});
  return array.texts ? texts_of(*plain) : std::move(plain);
}

namespace {

namespace fs = std::filesystem;
constexpr const char* npy_ending = ".npy";
constexpr const char* numpy_file = "a file of NumPy (.npy, .npz)";

std::shared_ptr<const UnchangedFile> unchanged(File file) {
  return std::make_shared<const UnchangedFile>(std::move(file));
}

/// Bytes of stored arrays that this process still compares with checksums: a data set may have many files.
std::atomic<std::int64_t> bytes_to_compare{std::int64_t{1} << 30};

class NpzFile final : public ArrayFile {
 public:
  NpzFile(const std::string& path, const std::map<std::string, std::string>& inflated, bool in_order)
      : path_(path), inflated_(inflated), in_order_(in_order), file_(unchanged(open_data_file(path))) {
    try {
      members_ = zip_members(file_->file());
    } catch (const UserError&) {
      refuse_other_kinds(path, FileFormat::npz, numpy_file);
      throw;
    }
    if (names().empty()) refuse_other_kinds(path, FileFormat::npz, numpy_file);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const ZipMember& member : members_)
      if (member.name.ends_with(npy_ending)) names.push_back(member.name.substr(0, member.name.rfind('.')));
    return names;
  }

  std::unique_ptr<Array> open(const std::string& name) const override {
    const auto found = std::ranges::find(members_, name + npy_ending, &ZipMember::name);
    require(found != members_.end(), path_, " has no array ", name);
    const std::string shown_name = cat("'", path_, "', ", name);
    if (!found->deflated) {
      if ((bytes_to_compare -= found->stored) >= 0) check_stored(file_->file(), *found);
      return open_npy(shown_name, file_, found->begin, found->stored);
    }
    if (in_order_) return streamed(shown_name, *found);
    std::optional<File> copy;
    if (const auto handle = inflated_.find(cat(path_, "/", found->name)); handle != inflated_.end())
      copy = File::of_handle(handle->second, cat("the inflated copy of ", shown_name));
    if (!copy) copy = inflated_member(file_->file(), *found);
    return open_npy(shown_name, unchanged(std::move(*copy)), 0, found->bytes);
  }

 private:
  std::unique_ptr<Array> streamed(const std::string& name, const ZipMember& member) const {
    std::vector<std::byte> begin(static_cast<std::size_t>(std::min(member.bytes, max_npy_header)));
    const std::size_t got = MemberReader(file_->file(), member).read(begin);
    File header = File::in_memory(cat("the header of ", name));
    header.append(std::span(begin).first(got));
    NpyForm array = npy_form(name, *unchanged(std::move(header)), 0, member.bytes);
    auto streamed =
        make_streamed_array(std::move(array.form), array.begin, [file = file_, member]() -> ByteReader {
          const auto reader = std::make_shared<MemberReader>(file->file(), member);
          return [file, reader](std::span<std::byte> to) { return reader->read(to); };
        });
    return array.texts ? texts_of(*streamed) : std::move(streamed);
  }

  std::string path_;
  std::map<std::string, std::string> inflated_;
  bool in_order_;
  std::shared_ptr<const UnchangedFile> file_;
  std::vector<ZipMember> members_;
};

/// Files of one array each.
class NpyFiles final : public ArrayFile {
 public:
  explicit NpyFiles(std::map<std::string, std::string> paths) : paths_(std::move(paths)) {}
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& [name, path] : paths_) names.push_back(name);
    return names;
  }
  std::unique_ptr<Array> open(const std::string& name) const override {
    const std::string& path = paths_.at(name);
    const auto file = unchanged(open_data_file(path));
    try {
      return open_npy(cat("'", path, "'"), file, 0, file->size());
    } catch (const UserError&) {
      refuse_other_kinds(path, FileFormat::npy, "a NumPy array (.npy)");
      throw;
    }
  }

 private:
  std::map<std::string, std::string> paths_;  ///< By the names of the arrays
};

}  // namespace

std::unique_ptr<ArrayFile> open_npz(const std::string& path,
                                    const std::map<std::string, std::string>& inflated, bool in_order) {
  return std::make_unique<NpzFile>(path, inflated, in_order);
}

std::map<std::string, File> inflated_arrays(const std::string& path, const std::vector<std::string>& names) {
  std::map<std::string, File> copies;
  const File archive = open_data_file(path);
  for (const ZipMember& member : zip_members(archive))
    if (member.deflated &&
        std::ranges::any_of(names, [&](const std::string& name) { return member.name == name + npy_ending; }))
      copies.emplace(cat(path, "/", member.name), inflated_member(archive, member));
  return copies;
}

std::unique_ptr<ArrayFile> open_npy_folder(const std::string& path) {
  std::map<std::string, std::string> paths;
  std::error_code error;
  fs::directory_iterator at(path, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error))
    if (at->path().extension() == npy_ending) paths[at->path().stem().string()] = at->path().string();
  if (error) throw UserError(cat(path, ": this folder cannot be read: ", error.message()));
  return std::make_unique<NpyFiles>(std::move(paths));
}

std::unique_ptr<ArrayFile> open_npy_file(const std::string& path) {
  return std::make_unique<NpyFiles>(
      std::map<std::string, std::string>{{fs::path(path).stem().string(), path}});
}

namespace {

/// Whether a file is one array of NumPy, whatever its name.
bool is_npy(const std::string& path) {
  return kind_of_path(path).format == FileFormat::npy;
}

std::unique_ptr<ArrayFile> open_numpy(const std::string& path, const ArrayOpening& opening) {
  if (is_folder(path)) return open_npy_folder(path);
  if (is_npy(path)) return open_npy_file(path);
  return open_npz(path, opening.request.use.inflated, opening.in_order);
}

/// A .npy file alone, as `flotilla predict` takes it, is the inputs.
void name_numpy(ArrayNames& names, const ArrayFile& file, const std::string& path, const DataRequest& request,
                MistakeList& /*mistakes*/) {
  if (!is_npy(path)) return;
  if (request.source.has_labels())
    throw UserError(cat("'", path,
                        "' is one array, and samples need labels or targets too; name the folder that holds ",
                        names.inputs, ".npy and ", names.targets, ".npy, or a .npz file"));
  names.inputs = file.names().front();
}

std::map<std::string, File> inflated_npz(const DataRequest& request) {
  const auto& [data, source, classes, seed, use] = request;
  std::map<std::string, File> copies;
  for (const std::string& path : array_files(request))
    if (path.ends_with(".npz"))
      copies.merge(inflated_arrays(path, {data.inputs_of(source), data.targets_of(source)}));
  return copies;
}

constexpr ArrayFormat numpy_format = {
    .wanted = [](bool /*training*/) { return "NAME.npy for data.inputs and data.targets, or *.npz"; },
    .what_is =
        [](const std::string& name, bool /*training*/) {
          return small_ending(name) == ".npz" ? InFolder::data : InFolder::other;
        },
    .open = open_numpy,
    .is_source =
        [](const DataConfig& data, const DataSourceConfig& source) {
          std::error_code ignored;
          return fs::exists(fs::path(source.path) / (data.inputs_of(source) + npy_ending), ignored);
        },
    .name_arrays = name_numpy};

}  // namespace

const DataReader numpy_reader = [] {
  DataReader reader = array_reader(DataKind::numpy, numpy_format);
  reader.inflate = inflated_npz;
  return reader;
}();

}  // namespace flotilla
