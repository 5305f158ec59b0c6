// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/orientation.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

using std::literals::string_view_literals::operator""sv;

constexpr int upright = 1;

/// Bytes with numbers in them. Numbers outside read as 0.
struct Bytes {
  std::span<const std::byte> data;
  bool little_endian = false;

  std::uint64_t number(std::size_t at, std::size_t size) const {
    if (at > data.size() || data.size() - at < size) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t byte = little_endian ? size - 1 - i : i;
      value = value << 8 | std::to_integer<std::uint64_t>(data[at + byte]);
    }
    return value;
  }
  bool has(std::size_t at, std::string_view text) const {
    return at <= data.size() && data.size() - at >= text.size() &&
           std::memcmp(data.data() + at, text.data(), text.size()) == 0;
  }
  std::span<const std::byte> from(std::size_t at) const {
    return data.subspan(at < data.size() ? at : data.size());
  }
};

/// The first directory of a TIFF header (TIFF 6.0, section 2): 12 bytes an entry.
int orientation_in_tiff(std::span<const std::byte> tiff) {
  Bytes bytes{tiff};
  bytes.little_endian = bytes.has(0, "II*\0"sv);
  if (!bytes.little_endian && !bytes.has(0, "MM\0*"sv)) return upright;
  const std::size_t directory = bytes.number(4, 4);
  const std::size_t entries = bytes.number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + 12 * i;
    if (bytes.number(entry, 2) != 0x0112) continue;
    const std::uint64_t value = bytes.number(entry + 8, 2);
    return 1 <= value && value <= 8 ? static_cast<int>(value) : upright;
  }
  return upright;
}

/// Segments up to the first scan: FF, marker, length of two bytes that counts itself.
int orientation_in_jpeg(const Bytes& file) {
  std::size_t at = 2;
  while (file.number(at, 1) == 0xFF) {
    const std::uint64_t marker = file.number(at + 1, 1);
    if (marker == 0xFF) {
      ++at;  // Padding
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) break;
    if (marker == 0xE1 && file.has(at + 4, "Exif\0\0"sv)) return orientation_in_tiff(file.from(at + 10));
    at += 2 + file.number(at + 2, 2);
  }
  return upright;
}

/// Chunks: length of the data, type, data, check sum.
int orientation_in_png(const Bytes& file) {
  for (std::size_t at = 8; at + 8 <= file.data.size(); at += 12 + file.number(at, 4)) {
    if (file.has(at + 4, "eXIf"sv)) return orientation_in_tiff(file.from(at + 8));
  }
  return upright;
}

}  // namespace

int exif_orientation(std::span<const std::byte> file) {
  const Bytes bytes{file};
  if (bytes.has(0, "\xFF\xD8"sv)) return orientation_in_jpeg(bytes);
  if (bytes.has(0, "\x89PNG"sv)) return orientation_in_png(bytes);
  return upright;
}

// EXIF 2.3, section 4.6.4, tag 0x0112: at which side of the scene the file's first row and first column lie.
Turning::Turning(int orientation, const Extent& stored)
    : swaps_(orientation >= 5),
      from_right_(orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8),
      from_bottom_(orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7),
      stored_(stored) {
  require(1 <= orientation && orientation <= 8, "there is no EXIF orientation ", orientation);
}

Extent Turning::upright() const {
  return swaps_ ? Extent{stored_.height, stored_.width} : stored_;
}

Box Turning::stored(const Box& upright) const {
  Box box = upright;
  if (swaps_) box = {upright.y, upright.x, upright.height, upright.width};
  if (from_right_) box.x = stored_.width - box.x - box.width;
  if (from_bottom_) box.y = stored_.height - box.y - box.height;
  return box;
}

Box Turning::upright(std::int64_t x, std::int64_t y, const Extent& stored) const {
  if (from_right_) x = stored.width - 1 - x;
  if (from_bottom_) y = stored.height - 1 - y;
  if (swaps_) std::swap(x, y);
  return {x, y, 1, 1};
}

void TurnedRows::read(RowSource& rows, const Turning& turning, const Box& part) {
  const Box box = turning.stored(part);
  const Extent extent{box.width, box.height};
  width_ = part.width;
  row_ = 0;
  pixels_.resize(static_cast<std::size_t>(part.width * part.height));
  std::array<const Pixel*, max_rows> next{};
  for (std::int64_t y = 0; y < extent.height; y += max_rows) {
    const std::int64_t count = std::min<std::int64_t>(max_rows, extent.height - y);
    rows.next(std::span(next).first(static_cast<std::size_t>(count)));
    for (std::int64_t r = 0; r < count; ++r) {
      for (std::int64_t x = 0; x < extent.width; ++x) {
        const Box to = turning.upright(x, y + r, extent);
        pixels_[static_cast<std::size_t>(to.y * width_ + to.x)] = next[static_cast<std::size_t>(r)][x];
      }
    }
  }
}

void TurnedRows::next(std::span<const Pixel*> rows) {
  for (const Pixel*& row : rows) row = pixels_.data() + row_++ * width_;
}

}  // namespace flotilla
