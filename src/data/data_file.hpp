// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/files/file.hpp"

namespace flotilla {

struct Config;

/// Opens a file of samples for reading; messages about it say what a user can do.
/// @throws UserError if it is missing, unreadable or no regular file
File open_data_file(const std::string& path);

/// The inflated content of a gzip file of samples, in a nameless file in temporary_folder().
/// @throws UserError as GzipReader does and if the disk is full
File inflated_samples(const File& compressed);

/// Warns on stderr, as gzip does, that this many bytes after a file's data are ignored, if there are any.
void warn_of_trailing_bytes(const std::string& path, std::int64_t bytes);

/// Opens the files of samples and lists of images that the deck names, to report all that cannot be read,
/// with their keys, before the first one is used. Folders and patterns are left to the code that lists them.
/// @throws UserError if one is missing or unreadable
void check_data_files(const Config& config, bool validation_only);

/// For images that no reader takes.
inline constexpr const char* image_advice = "convert it to JPEG or PNG";

/// The formats that readers ask for; all others that are recognised are `other`.
enum class FileFormat {
  unknown,
  binary,  ///< Unknown, with zeros: no text
  empty,
  text,  ///< Text of any kind that is not recognised
  list,
  criteo,
  libsvm,
  csv,  ///< Told apart from other text by commas only
  jpeg,
  png,
  hdf5,
  npy,
  npz,
  idx,
  cifar,
  tar,
  folder,
  other
};

/// The kind of a file or folder, by its contents. The texts are literals.
struct FileKind {
  FileFormat format = FileFormat::unknown;
  std::string_view name{};    ///< Name with its article: "an HDF5 file", "a WebP image"
  std::string_view advice{};  ///< The key that reads it, or a command: "decompress it with bunzip2"
  bool is_image = false;      ///< True also for image formats that are not decoded
  bool gzipped = false;       ///< The other members are those of the file inside
};

/// An HDF5 file in which is_of_model() finds weights; kind_of_path() does not look.
inline constexpr FileKind model_file{
    .format = FileFormat::hdf5,
    .name = "a checkpoint or a file of weights",
    .advice = "run.resume, model.initial_weights, evaluate and predict read such files"};

/// The first bytes of a file that suffice to recognise it.
inline constexpr std::size_t file_kind_bytes = 8192;

/// Recognises a file by its first bytes, file_kind_bytes of them or all that it has.
FileKind kind_of_bytes(std::span<const std::byte> begin);

/// Recognises a file by its first bytes, those inside it if it is compressed by gzip, and its size, or a
/// folder by the names in it. @throws UserError if it is missing or unreadable
FileKind kind_of_path(const std::string& path);

std::string described(const FileKind& kind);  ///< "an IDX file of images compressed by gzip"
std::string advice_on(
    const FileKind& kind);  ///< FileKind::advice, preceded by gunzip where that is needed first

/// "is a bzip2 file, not a LIBSVM file; decompress it with bunzip2": to follow a path and a colon.
/// @param wanted with its article
std::string wrong_kind_text(const FileKind& kind, std::string_view wanted);

/// @param format that is to be read here, also inside a gzip file if it is idx, criteo, libsvm or csv
/// @throws UserError that says what the file or folder is, unless it is of the format, empty or not
/// recognised
void refuse_other_kinds(const std::string& path, FileFormat format, std::string_view wanted);

}  // namespace flotilla
