// SPDX-License-Identifier: Apache-2.0
#include "src/files/gzip_reader.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t input_bytes = 256 * 1024;
constexpr std::size_t output_bytes = 256 * 1024;
constexpr std::array<std::byte, 2> gzip_magic = {std::byte{0x1f}, std::byte{0x8b}};
constexpr int gzip_only = 16 + MAX_WBITS;
constexpr std::int64_t max_shrinking = 1032;  // zlib's technical details
constexpr std::int64_t usual_shrinking = 100;
constexpr std::int64_t log_shrinking = 256;                       // of any text file of samples, at most
constexpr std::int64_t always_inflated = std::int64_t{64} << 20;  // whatever the compression ratio

}  // namespace

bool GzipReader::recognises(const File& file) {
  std::array<std::byte, 2> begin{};
  return file.read_some(0, begin) == begin.size() && begin == gzip_magic;
}

GzipReader::GzipReader(const File& file) : file_(file), input_(input_bytes) {
  const int code = inflateInit2(&stream_, gzip_only);
  if (code != Z_OK) throw LibraryError("inflateInit2", zError(code));
}

GzipReader::~GzipReader() {
  inflateEnd(&stream_);
}

std::int64_t GzipReader::at() const {
  return taken_ - static_cast<std::int64_t>(stream_.avail_in);
}

bool GzipReader::refill() {
  if (stream_.avail_in > 0) return true;
  const std::size_t got = file_.read_some(taken_, input_);
  stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
  stream_.avail_in = static_cast<uInt>(got);
  taken_ += static_cast<std::int64_t>(got);
  return got > 0;
}

bool GzipReader::next_member() {
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  do {  // zeros, as tapes and disks of blocks fill files up
    if (!refill()) return false;
    const auto* const next = reinterpret_cast<const std::byte*>(stream_.next_in);
    const auto* const first = std::find_if_not(next, next + stream_.avail_in, is_zero);
    stream_.avail_in -= static_cast<uInt>(first - next);
    stream_.next_in += first - next;
  } while (stream_.avail_in == 0);
  std::array<std::byte, 2> begin{};
  if (file_.read_some(at(), begin) < begin.size() || begin != gzip_magic) {
    trailing_ = file_.size() - at();
    return false;
  }
  const int code = inflateReset(&stream_);
  if (code != Z_OK) throw LibraryError("inflateReset", zError(code));
  return true;
}

std::size_t GzipReader::read(std::span<std::byte> to) {
  std::size_t done = 0;
  while (done < to.size() && !ended_) {
    if (!refill()) {
      throw UserError(cat(file_.name(), ": is truncated: the gzip data stop at byte ", at(),
                          " without an end; copy or download the file again"));
    }
    const std::size_t room = std::min<std::size_t>(to.size() - done, std::numeric_limits<uInt>::max());
    stream_.next_out = reinterpret_cast<Bytef*>(to.data() + done);
    stream_.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream_, Z_NO_FLUSH);
    done += room - stream_.avail_out;
    if (code == Z_MEM_ERROR) throw LibraryError("inflate", zError(code));
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
      throw UserError(cat(file_.name(), ": is damaged: gzip reports \"",
                          stream_.msg != nullptr ? stream_.msg : zError(code), "\" near byte ", at(),
                          "; copy or download the file again"));
    }
    if (code == Z_STREAM_END) ended_ = !next_member();
  }
  return done;
}

bool GzipReader::can_hold(std::int64_t bytes) const {
  return bytes / max_shrinking <= file_.size();
}

namespace {

/// The inflated size that a file states at its end; the smallest possible size if that is not credible: with
/// several members it is that of the last one, modulo 2^32.
std::int64_t min_inflated_bytes(const File& compressed) {
  std::array<std::uint8_t, 4> end{};
  if (compressed.size() < std::ssize(end)) return 0;
  compressed.read(compressed.size() - std::ssize(end), std::as_writable_bytes(std::span(end)));
  const auto said = static_cast<std::int64_t>(end[0] | std::uint32_t{end[1]} << 8 |
                                              std::uint32_t{end[2]} << 16 | std::uint32_t{end[3]} << 24);
  const bool plausible = said >= compressed.size() && said / usual_shrinking <= compressed.size();
  return plausible ? said : compressed.size();
}

}  // namespace

void inflate_into(GzipReader& reader, File& copy, std::int64_t most) {
  std::vector<std::byte> block(output_bytes);
  while (most > 0) {
    const auto room = static_cast<std::size_t>(std::min<std::int64_t>(most, output_bytes));
    const std::size_t got = reader.read(std::span(block).first(room));
    copy.append(std::span(block).first(got));
    if (got < room) return;
    most -= static_cast<std::int64_t>(got);
  }
}

File inflated_copy(const File& compressed, std::int64_t& trailing) {
  File copy = File::temporary(temporary_folder(), cat("the inflated copy of ", compressed.name()));
  copy.reserve(min_inflated_bytes(compressed));
  GzipReader reader(compressed);
  const std::int64_t most = std::max(always_inflated, compressed.size() * log_shrinking);
  inflate_into(reader, copy, most);
  std::array<std::byte, 1> more{};
  if (reader.read(more) > 0)
    throw UserError(cat(compressed.name(), ": has ", compressed.size(), " bytes and inflates to more than ",
                        most,
                        ", which no log of samples does: it is damaged or made to fill the disk; if it "
                        "is what it should be, gunzip it once"));
  trailing = reader.trailing_bytes();
  return copy;
}

}  // namespace flotilla
