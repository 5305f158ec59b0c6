// SPDX-License-Identifier: Apache-2.0
#include "src/data/shards/shard_writer.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <vector>

#include "kernels/error.hpp"
#include "src/config/values.hpp"
#include "src/data/data_file.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/image_source.hpp"
#include "src/data/shards/shard_files.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/data/shards/tar.hpp"
#include "src/files/atomic_file.hpp"
#include "src/files/checksum.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

constexpr std::size_t key_digits = 9;

std::int64_t member_bytes(std::int64_t contents) {
  return tar::block_bytes + tar::padded(contents);
}

}  // namespace

std::string sample_key(std::int64_t number) {
  const std::string digits = std::to_string(number);
  return std::string(key_digits - std::min(key_digits, digits.size()), '0') + digits;
}

std::string path_json(std::string_view path) {
  std::string text = "{\"path\":\"";
  for (const char letter : path) {
    if (letter == '"' || letter == '\\') text += '\\';
    text += letter;
  }
  return text + "\"}\n";
}

std::vector<std::int64_t> cut_into_shards(const ImageList& list, std::span<const std::int64_t> bytes,
                                          std::int64_t shard_bytes) {
  require(list.size() == std::ssize(bytes) && shard_bytes > 0, "no sizes of ", list.size(), " images");
  const auto bytes_of = [&](std::int64_t i) {
    const auto k = static_cast<std::size_t>(i);
    return member_bytes(std::ssize(std::to_string(list.entries[k].label))) + member_bytes(bytes[k]) +
           member_bytes(std::ssize(path_json(list.written(i))));
  };
  std::int64_t all = 0;
  for (std::int64_t i = 0; i < list.size(); ++i) all += bytes_of(i);
  const std::int64_t shards = (all + shard_bytes - 1) / shard_bytes;
  const std::int64_t each = (all + shards - 1) / shards;
  std::vector<std::int64_t> begins;
  std::int64_t before = 0;
  std::int64_t last = -1;
  for (std::int64_t i = 0; i < list.size(); ++i) {
    if (before / each != last) begins.push_back(i);
    last = before / each;
    before += bytes_of(i);
  }
  begins.push_back(list.size());
  return begins;
}

std::int64_t examine_image(const ImageList& list, std::int64_t i, MistakeList& mistakes) {
  const std::string_view written = list.written(i);
  const auto tell = [&](const std::string& what) {
    // Finding the line of an image takes time.
    mistakes.add(mistakes.keeps_more() ? list.place(i) + what : what);
    return std::int64_t{0};
  };
  if (!config::is_utf8(written) || std::ranges::any_of(written, [](unsigned char c) { return c < ' '; }))
    return tell(cat(config::quoted(written), " is not one line of UTF-8; rename it"));
  try {
    const std::string path = list.path(i);
    const std::int64_t bytes = open_data_file(path).size();
    if (bytes == 0) return tell(cat(config::printable(path), ": is empty; copy or download it again"));
    if (bytes > max_image_bytes)
      return tell(cat(config::printable(path), ": has ", bytes, " bytes, too many for an image"));
    return bytes;
  } catch (const UserError& error) {
    return tell(config::printable(error.what()));
  }
}

namespace {

constexpr std::size_t written_piece_bytes = std::size_t{1} << 22;

const char* room_for_shards(int /*error*/) {
  return "make room, or name another folder with --output; then the same command goes on where it ended";
}

/// The checksum of a file, as the disk has it where `from_disk`.
std::uint64_t checksum_of_file(const std::string& path, bool from_disk, const PackProgress& progress) {
  const File file = open_data_file(path);
  if (from_disk) posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  std::vector<std::byte> piece(written_piece_bytes);
  Checksum checksum;
  std::int64_t at = 0;
  for (std::size_t got = file.read_some(at, piece); got > 0; got = file.read_some(at, piece)) {
    checksum.add(std::span(piece).first(got));
    at += static_cast<std::int64_t>(got);
    if (progress) progress(static_cast<std::int64_t>(got));
  }
  return checksum.value();
}

/// Adds what identifies the file that was packed.
void identify_file(const FileStamp& stamp, Checksum& sources) {
  sources.add(std::as_bytes(std::span(&stamp, 1)));
}

/// A tar file that grows member by member.
class TarFile {
 public:
  explicit TarFile(const std::string& path) : file_(path, room_for_shards) {
    buffer_.reserve(2 * written_piece_bytes);
  }

  /// @returns where the contents begin
  std::int64_t add(const std::string& name, std::span<const std::byte> contents) {
    append(tar::header(name, std::ssize(contents)));
    const std::int64_t begin = bytes();
    append(contents);
    append(std::string(static_cast<std::size_t>(tar::padded(std::ssize(contents)) - std::ssize(contents)),
                       '\0'));
    return begin;
  }
  void end() {
    append(std::string(tar::end_bytes, '\0'));
    flush();
    file_.file().sync();
  }
  std::int64_t bytes() const { return flushed_ + std::ssize(buffer_); }
  std::uint64_t checksum() const { return checksum_.value(); }
  AtomicFile& file() { return file_; }

 private:
  void append(std::span<const std::byte> some) {
    buffer_.insert(buffer_.end(), some.begin(), some.end());
    if (buffer_.size() >= written_piece_bytes) flush();
  }
  void append(const std::string& text) { append(std::as_bytes(std::span(text))); }
  void flush() {
    checksum_.add(buffer_);
    file_.file().append(buffer_);
    flushed_ += std::ssize(buffer_);
    buffer_.clear();
  }

  AtomicFile file_;
  Checksum checksum_;
  std::vector<std::byte> buffer_;
  std::int64_t flushed_ = 0;
};

/// Reads the images of a shard's samples one after another.
class ImageReader {
 public:
  ImageReader(const ImageList& list, const PackProgress& progress) : list_(list), progress_(progress) {}
  /// @param bytes that the file had when the shards were cut
  /// @returns the image, valid until the next call, and its extension in `extension`
  /// @throws BadImage or UserError
  std::span<const std::byte> read(std::int64_t i, std::int64_t bytes, const char*& extension) {
    const File file = open_data_file(list_.path(i));
    const FileStamp stamp = file.stamp();
    if (stamp.bytes != bytes)
      throw BadImage(cat("had ", bytes, " bytes when packing began, and has ", stamp.bytes,
                         " now; start again when it is complete"));
    image_.resize(static_cast<std::size_t>(bytes));
    file.read(0, image_);
    extension = recognise_image(image_) == FileFormat::jpeg ? ".jpg" : ".png";
    identify_file(stamp, sources_);
    progress_(bytes);
    return image_;
  }
  std::uint64_t sources() const { return sources_.value(); }

 private:
  const ImageList& list_;
  const PackProgress& progress_;
  std::vector<std::byte> image_;
  Checksum sources_;
};

}  // namespace

bool is_packed(const ImageList& list, const ShardPart& part, const PackProgress& progress) {
  const std::string path = index_path(part.path);
  if (!is_there(part.path) || !is_there(path)) return false;
  ShardIndex index;
  try {
    index = ShardIndex::of_text(open_data_file(path).text(), path);
    if (open_data_file(part.path).size() != index.bytes) return false;
    if (std::ssize(index.images) != part.end - part.begin) return false;
    Checksum sources;
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const PackedImage& image = index.images[static_cast<std::size_t>(i - part.begin)];
      if (image.name != list.written(i) || image.label != list.entries[static_cast<std::size_t>(i)].label)
        return false;
      identify_file(open_data_file(list.path(i)).stamp(), sources);
    }
    return sources.value() == index.sources && checksum_of_file(part.path, false, progress) == index.checksum;
  } catch (const UserError&) {  // damaged: it is written again
    return false;
  }
}

std::int64_t write_shard(const ImageList& list, const ShardPart& part, std::span<const std::int64_t> bytes,
                         const PackProgress& progress, MistakeList& mistakes) {
  // A shard without its index does not count as finished.
  std::error_code none;
  std::filesystem::remove(index_path(part.path), none);
  TarFile shard(part.path);
  ShardIndex index;
  ImageReader reader(list, progress);
  bool good = true;
  for (std::int64_t i = part.begin; i < part.end; ++i) {
    try {
      const char* extension = nullptr;
      const auto image = reader.read(i, bytes[static_cast<std::size_t>(i - part.begin)], extension);
      const std::string key = sample_key(i);
      const std::int32_t label = list.entries[static_cast<std::size_t>(i)].label;
      const std::string label_text = std::to_string(label);
      const std::string path(list.written(i));
      const std::string json = path_json(path);
      shard.add(key + ".cls", std::as_bytes(std::span(label_text)));
      const std::int64_t begin = shard.add(key + extension, image);
      shard.add(key + ".json", std::as_bytes(std::span(json)));
      index.images.push_back({.begin = begin, .bytes = std::ssize(image), .label = label, .name = path});
    } catch (const BadImage& error) {
      good = false;
      const std::string text = cat(config::printable(list.path(i)), ": ", error.what());
      mistakes.add(mistakes.keeps_more() ? list.place(i) + text : text);
    }
  }
  if (!good) return 0;
  shard.end();
  if (checksum_of_file(shard.file().temporary(), true, {}) != shard.checksum())
    throw UserError(cat(part.path,
                        ": what the disk returns is not what was written; this disk cannot be trusted: name "
                        "a folder on another one with --output"));
  index.bytes = shard.bytes();
  index.checksum = shard.checksum();
  index.sources = reader.sources();
  shard.file().commit();
  write_text_file_atomically(index_path(part.path), index.text());
  return index.bytes;
}

}  // namespace flotilla
