// SPDX-License-Identifier: Apache-2.0
#include "src/data/idx_file.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <span>
#include <utility>

#include "kernels/error.hpp"
#include "src/data/data_file.hpp"
#include "src/files/gzip_reader.hpp"

namespace flotilla {

namespace {

constexpr std::uint32_t images_magic = 2051;
constexpr std::uint32_t labels_magic = 2049;
constexpr std::int64_t most_pixels = std::int64_t{1} << 26;  // of one image: more is a damaged header
constexpr const char* again = "; copy or download the file again";

std::uint32_t big_endian(std::span<const std::uint8_t> from) {
  return std::uint32_t{from[0]} << 24 | std::uint32_t{from[1]} << 16 | std::uint32_t{from[2]} << 8 | from[3];
}

const char* name(IdxKind kind) {
  return kind == IdxKind::images ? "images" : "labels";
}

/// Describes a file that does not begin with the required magic number.
std::string foreign(std::uint32_t magic, IdxKind kind) {
  const IdxKind other = kind == IdxKind::images ? IdxKind::labels : IdxKind::images;
  const std::string wanted =
      cat(name(kind), " (magic ", kind == IdxKind::images ? images_magic : labels_magic, ")");
  if (magic == images_magic || magic == labels_magic) {
    return cat("holds ", name(other), " (magic ", magic, "), but ", wanted,
               " belong here; are the deck's keys \"images\" and \"labels\" swapped?");
  }
  const std::string begin = fmt::format("{:08x}", magic);
  if (magic == 0x01080000U || magic == 0x03080000U) {
    return cat("begins with ", begin, ": its numbers are little-endian; IDX is big-endian, write it anew");
  }
  if (magic >> 16 == 0) {
    return cat("begins with ", begin, ": IDX of type 0x", begin.substr(4, 2), " in ", magic & 0xffU,
               " dimensions; ", wanted, " of unsigned bytes belong here");
  }
  return cat("begins with ", begin, ", which is neither IDX nor gzip; ", wanted, " belong here",
             magic >> 24 == '<' ? " (it looks like a web page: was the download refused?)" : "");
}

/// Reads the header out of its first bytes. @throws UserError if they are not what `kind` says.
void parse_header(IdxFile& idx, IdxKind kind, std::span<const std::uint8_t> header) {
  const auto fail = [&](const auto&... what) { throw UserError(cat(idx.path, ": ", what...)); };
  if (header.empty()) fail("is empty", again);
  if (header.size() < 4) fail("is truncated: ", header.size(), " bytes, no magic number", again);
  const std::uint32_t magic = big_endian(header);
  if (magic != (kind == IdxKind::images ? images_magic : labels_magic)) fail(foreign(magic, kind));
  if (std::ssize(header) < idx.header_bytes) {
    fail("is truncated: ends at byte ", header.size(), " of its ", idx.header_bytes, "-byte header", again);
  }
  idx.items = big_endian(header.subspan(4));
  if (idx.items == 0) fail("holds no ", name(kind), " (bytes 4 to 7: count 0); give a file that does");
  if (kind == IdxKind::labels) return;
  idx.rows = big_endian(header.subspan(8));
  idx.columns = big_endian(header.subspan(12));
  // Both factors are below 2³², so the product of two fits; that of all three is bounded by this check.
  if (idx.rows == 0 || idx.columns == 0 || idx.rows > most_pixels / idx.columns) {
    fail("its images are ", idx.rows, "x", idx.columns, " (bytes 8 to 15), which cannot be right: 1 to ",
         most_pixels, " pixels are allowed", again);
  }
}

std::string wrong_length(const IdxFile& idx, IdxKind kind, std::int64_t there) {
  const std::int64_t wanted = idx.items * idx.item_bytes();
  const std::string promise = cat("its header promises ", idx.items, " ", name(kind), " of ",
                                  idx.item_bytes(), idx.item_bytes() == 1 ? " byte" : " bytes");
  if (there > wanted)
    return cat(idx.path, ": is too long: ", promise, ", but data go on after byte ",
               idx.header_bytes + wanted, again);
  return cat(idx.path, ": is truncated: ", promise, ", but the data end at byte ", idx.header_bytes + there,
             ", in item ", there / idx.item_bytes(), again);
}

/// Copies what the header promises into a nameless file in a folder.
File inflate(const IdxFile& idx, IdxKind kind, GzipReader& reader, const std::string& folder) {
  File copy = File::temporary(folder, cat("the inflated copy of ", idx.path));
  const std::int64_t wanted = idx.items * idx.item_bytes();
  if (reader.can_hold(wanted)) copy.reserve(wanted);
  inflate_into(reader, copy, wanted);
  if (copy.size() < wanted) throw UserError(wrong_length(idx, kind, copy.size()));
  // Asking for one byte more also makes zlib compare the checksum.
  std::array<std::byte, 1> more{};
  if (reader.read(more) > 0) throw UserError(wrong_length(idx, kind, wanted + 1));
  return copy;
}

}  // namespace

IdxFile open_idx(const std::string& path, IdxKind kind, const std::string& inflated) {
  const std::int64_t header_bytes = kind == IdxKind::images ? 16 : 8;
  IdxFile idx{.path = path,
              .bytes = open_data_file(path),
              .begin = header_bytes,
              .header_bytes = header_bytes,
              .storage = {}};
  std::array<std::uint8_t, 16> header{};
  const auto room = std::span(header).first(static_cast<std::size_t>(header_bytes));
  if (GzipReader::recognises(idx.bytes)) {
    const File compressed = std::move(idx.bytes);
    GzipReader reader(compressed);
    const std::size_t got = reader.read(std::as_writable_bytes(room));
    parse_header(idx, kind, room.first(got));
    const std::string folder = temporary_folder();
    std::optional<File> copy = File::of_handle(inflated, cat("the inflated copy of ", path));
    idx.bytes = copy ? std::move(*copy) : inflate(idx, kind, reader, folder);
    idx.begin = 0;
    idx.storage =
        fmt::format("{:.1f} MB inflated in {}", static_cast<double>(idx.bytes.size()) * 1e-6, folder);
  } else {
    const std::size_t got = idx.bytes.read_some(0, std::as_writable_bytes(room));
    parse_header(idx, kind, room.first(got));
    const std::int64_t there = idx.bytes.size() - header_bytes;
    if (there != idx.items * idx.item_bytes()) throw UserError(wrong_length(idx, kind, there));
  }
  return idx;
}

}  // namespace flotilla
