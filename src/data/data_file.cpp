// SPDX-License-Identifier: Apache-2.0
#include "src/data/data_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/keys.hpp"
#include "src/config/values.hpp"
#include "src/data/arrays/known_arrays.hpp"
#include "src/data/data_reader.hpp"
#include "src/data/images/image_folder.hpp"
#include "src/data/shards/tar.hpp"
#include "src/files/gzip_reader.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

const char* remedy(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path (it begins at the folder of the deck, at the root of a list, and on the command "
             "line at the current folder)";
    case EISDIR: return "name a file in it";
    case EACCES:
    case EPERM: return "give yourself the right to read it (chmod, or the group it belongs to)";
    case EMFILE:
    case ENFILE: return "raise the limit of open files (ulimit -n)";
    case EIO: return "check the disk or the network file system that it lies on";
    default: return "check that it can be read on this host";
  }
}

}  // namespace

File open_data_file(const std::string& path) {
  return File::open(path, remedy);
}

File inflated_samples(const File& compressed) {
  std::int64_t trailing = 0;
  File copy = inflated_copy(compressed, trailing);
  warn_of_trailing_bytes(compressed.name(), trailing);
  return copy;
}

void warn_of_trailing_bytes(const std::string& path, std::int64_t bytes) {
  if (bytes > 0)
    print_error_line(cat("flotilla: warning: ", path, ": the ", bytes, bytes == 1 ? " byte" : " bytes",
                         " behind its gzip data are not read"));
}

void check_data_files(const Config& config, bool validation_only) {
  std::vector<std::string> mistakes;
  for (const config::Key& key : config::all_keys()) {
    const bool is_read =
        key.path.starts_with("data.validation.") ||
        (key.path.starts_with("data.train.") && (!validation_only || config.data.validation.share > 0.0));
    if (!is_read || key.name() == "root" || key.path_role != config::PathRole::input ||
        !is_active(key, config))
      continue;
    const auto path = std::get<std::string>(key.field.read(config));
    std::error_code ignored;
    const bool is_list = key.name() == "path";
    const bool is_pattern = is_list && path.find_first_of("*?[{") != std::string::npos;
    if (path.empty() || is_pattern || (is_list && std::filesystem::is_directory(path, ignored))) continue;
    try {
      open_data_file(path);
    } catch (const UserError& error) {
      mistakes.push_back(cat(key.path, ": ", error.what()));
    }
  }
  if (mistakes.empty()) return;
  if (mistakes.size() == 1) throw UserError(mistakes.front());
  std::string text = cat(mistakes.size(), " files of data cannot be read:");
  for (const std::string& mistake : mistakes) text += "\n  " + mistake;
  throw UserError(text);
}

namespace {

namespace fs = std::filesystem;
using std::literals::string_view_literals::operator""sv;

constexpr std::string_view hdf5_signature = "\x89HDF\r\n\x1A\n";
constexpr const char* hdf5_reads = "data.kind = \"hdf5\" reads it";
constexpr const char* numpy_reads = "data.kind = \"numpy\" reads it";
constexpr const char* cifar_reads = "data.kind = \"cifar\" reads it";
constexpr const char* images_read =
    "data.kind = \"image-folder\", \"image-list\" and \"webdataset\" read such images";
constexpr const char* to_npz = "write its numbers with numpy.savez, for data.kind = \"numpy\"";
constexpr const char* fetch_again = "copy or download it again";
constexpr const char* torch_converts =
    "python3 scripts/torch_to_hdf5.py IN OUT.h5 makes weights for model.initial_weights of it";

struct Signature {
  std::size_t at;
  std::string_view bytes;
  FileFormat format;
  const char* name;
  const char* advice;
  bool is_image = false;
};

constexpr auto other_format = FileFormat::other;
constexpr std::array signatures = {
    Signature{0, "\xFF\xD8\xFF"sv, FileFormat::jpeg, "a JPEG image", images_read, true},
    Signature{0, "\x89PNG\r\n\x1A\n"sv, FileFormat::png, "a PNG image", images_read, true},
    Signature{0, "GIF87a"sv, other_format, "a GIF image", image_advice, true},
    Signature{0, "GIF89a"sv, other_format, "a GIF image", image_advice, true},
    Signature{8, "WEBP"sv, other_format, "a WebP image", image_advice, true},
    Signature{0, "II*\0"sv, other_format, "a TIFF image", image_advice, true},
    Signature{0, "MM\0*"sv, other_format, "a TIFF image", image_advice, true},
    Signature{4, "ftypavi"sv, other_format, "an AVIF image", image_advice, true},
    Signature{4, "ftyphe"sv, other_format, "an HEIC image", image_advice, true},
    Signature{4, "ftypmif1"sv, other_format, "an HEIC image", image_advice, true},
    Signature{4, "ftyp"sv, other_format, "a video", "write its frames as JPEG or PNG images"},
    Signature{0, "\0\0\0\x0CjP  "sv, other_format, "a JPEG 2000 image", image_advice, true},
    Signature{0, "\xFF\x4F\xFF\x51"sv, other_format, "a JPEG 2000 image", image_advice, true},
    Signature{0, "\0\0\0\x0CJXL "sv, other_format, "a JPEG XL image", image_advice, true},
    Signature{0, "\xFF\x0A"sv, other_format, "a JPEG XL image", image_advice, true},
    Signature{0, "8BPS"sv, other_format, "a Photoshop image", image_advice, true},
    Signature{0, "%PDF"sv, other_format, "a PDF file", image_advice},
    Signature{0, "\x1F\x8B"sv, other_format, "a gzip file", "decompress it with gunzip"},
    Signature{4, "1AY&SY"sv, other_format, "a bzip2 file", "decompress it with bunzip2"},
    Signature{0, "\xFD\x37zXZ\0"sv, other_format, "an xz file", "decompress it with unxz"},
    Signature{0, "\x28\xB5\x2F\xFD"sv, other_format, "a zstd file", "decompress it with unzstd"},
    Signature{0, "\x04\x22\x4D\x18"sv, other_format, "an lz4 file", "decompress it with unlz4 -m"},
    Signature{0, "]\0\0"sv, other_format, "an lzma file", "decompress it with unlzma"},
    Signature{0, "\x1F\x9D"sv, other_format, "a file of compress", "decompress it with gunzip"},
    Signature{0, "7z\xBC\xAF\x27\x1C"sv, other_format, "a 7-Zip archive", "unpack it with 7z x"},
    Signature{0, "Rar!\x1A\x07"sv, other_format, "a RAR archive", "unpack it with unrar x"},
    Signature{0, "\x93NUMPY"sv, FileFormat::npy, "a NumPy array (.npy)", numpy_reads},
    Signature{0, "MATLAB 5.0"sv, other_format, "a MATLAB file before version 7.3",
              "write it with save -v7.3 in MATLAB, for data.kind = \"hdf5\""},
    Signature{0, "CDF\1"sv, other_format, "a netCDF file before version 4",
              "convert it with nccopy -k nc4, for data.kind = \"hdf5\""},
    Signature{0, "CDF\2"sv, other_format, "a netCDF file before version 4",
              "convert it with nccopy -k nc4, for data.kind = \"hdf5\""},
    Signature{0, "PAR1"sv, other_format, "a Parquet file", to_npz},
    Signature{0, "ARROW1\0"sv, other_format, "an Arrow file", to_npz},
    Signature{0, "SQLite format 3\0"sv, other_format, "an SQLite database", to_npz},
    Signature{0, "flotilla shard index"sv, other_format, "the index of a shard", "name the shard itself"},
    Signature{0, "version https://git-lfs"sv, other_format, "a Git LFS pointer",
              "fetch the file itself with git lfs pull"},
    Signature{0, "\xFF\xFE"sv, other_format, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"},
    Signature{0, "\xFE\xFF"sv, other_format, "text in UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"},
};

constexpr FileKind kind(FileFormat format, std::string_view name, std::string_view advice,
                        bool is_image = false) {
  return {.format = format, .name = name, .advice = advice, .is_image = is_image};
}

bool is_text(std::string_view begin) {
  return std::ranges::all_of(begin, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0x20 ? byte != 0x7F : std::isspace(byte) != 0;
  });
}

/// The first line that is neither empty nor a comment, without blanks around it.
std::string_view first_line(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t begin = line.find_first_not_of(" \r");
    if (begin == line.npos || line[begin] == '#') continue;
    return line.substr(begin, line.find_last_not_of(" \r") + 1 - begin);
  }
  return {};
}

FileKind kind_of_text(std::string_view text) {
  constexpr auto format = FileFormat::text;
  const std::string_view line = first_line(text);
  const std::string small = config::lower_case(line.substr(0, 20));
  if (small.starts_with("<!doctype html") || small.starts_with("<html"))
    return kind(other_format, "an HTML page",
                "servers send one instead of a file that they lack: download it again");
  if (small.starts_with("<svg") || small.starts_with("<?xml"))
    return kind(other_format, "an SVG or XML file", image_advice, true);
  for (const DataReader* reader : data_readers)
    if (reader->is_line != nullptr && reader->is_line(line)) return reader->file;
  const std::size_t second = line.find_first_not_of(" \t[", 1);  // decks have "[name]"
  if (line.starts_with('{') ||
      (line.starts_with('[') && (second == line.npos || "{\"0123456789-"sv.find(line[second]) != line.npos)))
    return kind(other_format, "a JSON file", to_npz);
  if (line.starts_with('[') && line.ends_with(']'))
    return kind(other_format, "a TOML file", "flotilla train and compare read decks and plans");
  if (line.find_first_of(",;") != line.npos)
    return kind(FileFormat::csv, "a CSV file", "data.kind = \"csv\" reads it");
  return kind(format, "a text file", "check the path");
}

/// Archives of zip are told apart by the name of their first member.
FileKind kind_of_zip(std::string_view bytes) {
  const std::string_view name =
      bytes.size() < 30 ? ""
                        : bytes.substr(30).substr(0, static_cast<unsigned char>(bytes[26]) +
                                                         256U * static_cast<unsigned char>(bytes[27]));
  if (name.ends_with(".npy")) return kind(FileFormat::npz, "a NumPy archive (.npz)", numpy_reads);
  if (name.ends_with("data.pkl")) return kind(other_format, "a PyTorch file", torch_converts);
  if (name == "[Content_Types].xml") return kind(other_format, "an Office document", to_npz);
  return kind(other_format, "a zip archive", "unpack it with unzip");
}

FileKind kind_of_idx(std::string_view bytes) {
  return kind(FileFormat::idx, bytes[3] >= 3 ? "an IDX file of images" : "an IDX file of labels",
              "data.kind = \"idx\" reads it");
}

/// Whether gzip files of the format are read.
bool is_read_inflated(FileFormat format) {
  return format == FileFormat::idx || format == FileFormat::criteo || format == FileFormat::libsvm ||
         format == FileFormat::csv;
}

FileKind kind_of_folder(const std::string& path) {
  constexpr int max_looked_at = 1000;
  constexpr auto format = FileFormat::folder;
  FileKind found = kind(format, "a folder", "name a file in it");
  std::error_code error;
  int looked_at = 0;
  for (fs::directory_iterator at(path, error), end; !error && at != end && looked_at < max_looked_at;
       at.increment(error), ++looked_at) {
    const std::string name = at->path().filename().string();
    const auto ends = [&](std::string_view ending) { return name.ends_with(ending); };
    if (ends(".tar")) return kind(format, "a folder of tar files", "data.kind = \"webdataset\" reads it");
    if (ends(".npy") || ends(".npz")) return kind(format, "a folder of NumPy files", numpy_reads);
    if (ends(".h5") || ends(".hdf5")) return kind(format, "a folder of HDF5 files", hdf5_reads);
    if (name.starts_with("data_batch_")) return kind(format, "a folder of CIFAR files", cifar_reads);
    std::error_code ignored;
    if (at->is_directory(ignored))
      found = kind(format, "a folder of folders", "data.kind = \"image-folder\" reads it");
    if (has_image_ending(name))
      found =
          kind(format, "a folder of images", "data.kind = \"image-folder\" reads folders of such folders");
  }
  return found;
}

}  // namespace

FileKind kind_of_bytes(std::span<const std::byte> begin) {
  const std::string_view bytes(reinterpret_cast<const char*>(begin.data()),
                               std::min(begin.size(), file_kind_bytes));
  if (bytes.empty()) return kind(FileFormat::empty, "an empty file", fetch_again);
  for (const Signature& each : signatures)
    if (bytes.size() > each.at && bytes.substr(each.at).starts_with(each.bytes))
      return kind(each.format, each.name, each.advice, each.is_image);
  if (bytes.starts_with("BM") && bytes.size() > 9 && bytes.substr(6, 4) == "\0\0\0\0"sv)
    return kind(other_format, "a BMP image", image_advice, true);
  if (bytes.size() > 2 && bytes[0] == 'P' && '1' <= bytes[1] && bytes[1] <= '6' && bytes[2] == '\n')
    return kind(other_format, "a PNM image", image_advice, true);
  for (std::size_t at = 0; at + hdf5_signature.size() <= bytes.size(); at = at == 0 ? 512 : 2 * at)
    if (bytes.substr(at).starts_with(hdf5_signature))
      return kind(FileFormat::hdf5, "an HDF5 file", hdf5_reads);
  if (bytes.starts_with("PK\3\4")) return kind_of_zip(bytes);
  if (bytes.starts_with("\0\0"sv) && bytes.size() > 3 && bytes[2] >= 8 && bytes[2] <= 14 && bytes[3] >= 1 &&
      bytes[3] <= 8)
    return kind_of_idx(bytes);
  if (bytes.size() > 9 && bytes[8] == '{' && bytes[9] == '"' && bytes.substr(3, 5) == "\0\0\0\0\0"sv)
    return kind(other_format, "a file of safetensors", torch_converts);
  if (bytes.size() > 2 && bytes[0] == '\x08' && '\3' <= bytes[1] && bytes[1] <= '\x20' &&
      (bytes[2] == '\x12' || bytes[2] == '\x3A'))
    return kind(other_format, "an ONNX model", "Flotilla reads the checkpoint that it was exported from");
  if (bytes.starts_with("\x80") && bytes.size() > 2 && bytes[1] >= 2 && bytes[1] <= 5)
    return kind(other_format, "a Python pickle", to_npz);
  if (bytes.size() >= 512 && !tar::is_zero(begin.first(512)) && tar::parse_header(begin.first(512)))
    return kind(FileFormat::tar, "a tar file", "data.kind = \"webdataset\" reads it");
  const std::string_view start = bytes.substr(0, 512);
  if (is_text(start)) return kind_of_text(bytes);
  if (std::ranges::all_of(start, [](char c) { return c == 0; }))
    return kind(other_format, "a file that begins with zeros", fetch_again);
  return kind(bytes.find('\0') == bytes.npos ? FileFormat::unknown : FileFormat::binary,
              "a file of an unknown kind", "check the path");
}

FileKind kind_of_path(const std::string& path) {
  constexpr std::int64_t cifar_bytes = 3073;  // of CIFAR-100 one more
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return kind_of_folder(path);
  const File file = open_data_file(path);
  std::vector<std::byte> begin(file_kind_bytes);
  FileKind found = kind_of_bytes(std::span(begin).first(file.read_some(0, begin)));
  if (GzipReader::recognises(file)) {
    try {
      found = kind_of_bytes(std::span(begin).first(GzipReader(file).read(begin)));
      found.gzipped = true;
    } catch (const UserError&) {  // damaged or truncated: the reader of gzip files says where
      found.format = FileFormat::unknown;
    }
  } else if ((found.format == FileFormat::unknown || found.format == FileFormat::binary) &&
             (file.size() % cifar_bytes == 0 || file.size() % (cifar_bytes + 1) == 0)) {
    found = kind(FileFormat::cifar, "a CIFAR file", cifar_reads);
  }
  return found;
}

std::string described(const FileKind& kind) {
  return cat(kind.name, kind.gzipped ? " compressed by gzip" : "");
}

std::string advice_on(const FileKind& kind) {
  return cat(kind.gzipped && !is_read_inflated(kind.format) ? "decompress it with gunzip; " : "",
             kind.advice);
}

std::string wrong_kind_text(const FileKind& kind, std::string_view wanted) {
  return cat("is ", described(kind), ", not ", wanted, "; ", advice_on(kind));
}

void refuse_other_kinds(const std::string& path, FileFormat format, std::string_view wanted) {
  FileKind kind = kind_of_path(path);
  if (kind.format == FileFormat::hdf5 && format != kind.format && !kind.gzipped &&
      is_of_model(*open_hdf5_arrays(path, nullptr)))
    kind = model_file;
  const bool is_text = format == FileFormat::text || format == FileFormat::list ||
                       format == FileFormat::criteo || format == FileFormat::libsvm ||
                       format == FileFormat::csv;
  // The lines of a table may look like those of a log.
  const bool is_lines =
      kind.format == FileFormat::text || kind.format == FileFormat::csv ||
      (format == FileFormat::csv && (kind.format == FileFormat::criteo || kind.format == FileFormat::libsvm));
  const bool fits = kind.format == format || (is_text && is_lines);
  if (fits && (!kind.gzipped || is_read_inflated(format))) return;
  const bool tells_empty = is_text || format == FileFormat::idx;  // in its own words
  const bool known = format == FileFormat::folder ||
                     ((kind.format != FileFormat::empty || !tells_empty) &&
                      kind.format != FileFormat::unknown && (kind.format != FileFormat::binary || is_text));
  if (!known && (!kind.gzipped || is_read_inflated(format))) return;
  throw UserError(
      cat(config::printable(path), ": ",
          fits ? cat("is ", described(kind), "; decompress it with gunzip") : wrong_kind_text(kind, wanted)));
}

}  // namespace flotilla
