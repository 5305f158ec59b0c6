// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace flotilla::test {

using Bytes = std::vector<std::uint8_t>;

/// Interleaved values of 8 bits.
struct Picture {
  int width = 0;
  int height = 0;
  int channels = 3;
  std::vector<std::uint8_t> values;

  std::uint8_t at(int x, int y, int c) const {
    return values[static_cast<std::size_t>((y * width + x) * channels + c)];
  }
};

/// A picture of f(x, y, channel).
Picture draw(int width, int height, const std::function<int(int, int, int)>& f, int channels = 3);
/// Waves of all lengths over all values, with edges between: every coefficient of every block matters.
Picture busy(int width, int height, int channels = 3);
/// Value (37 x + 59 y + 83 c + 11 x y) mod 256.
Picture pattern(int width, int height, int channels = 3);

/// The form of a JPEG file to write.
struct JpegForm {
  enum Colours { grey, ycc, rgb, cmyk, ycck };
  Colours colours = ycc;
  int sampling_x = 2;  ///< Sampling of the first component; the others have 1.
  int sampling_y = 2;
  bool progressive = false;
  bool arithmetic = false;
  int restart_rows = 0;
  int quality = 90;
  int orientation = 0;  ///< An EXIF segment, unless 0.
  bool big_endian = false;
};

/// Values are taken as they are: of CMYK, what the file shall hold.
Bytes jpeg(const Picture& picture, const JpegForm& form = {});
/// The whole image by the shortest way through libjpeg: RGB, or the four inks as stored.
Picture decode_jpeg(const Bytes& file);

/// The form of a PNG file to write; at `depth` 16 the picture's values are the upper bytes, the lower ones
/// are 0x80.
struct PngForm {
  int colour_type = 2;  ///< 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGB + alpha
  int depth = 8;
  bool interlaced = false;
  std::vector<std::uint8_t> palette = {};  ///< Three values each
  bool transparent = false;                ///< A tRNS chunk: palette or grey value 0 is transparent.
  int orientation = 0;                     ///< An eXIf chunk, unless 0.
};

/// Values below 2^depth, or palette indices.
Bytes png(const Picture& picture, const PngForm& form = {});

/// The TIFF structure that holds an orientation, after an entry of another tag.
Bytes exif(int orientation, bool big_endian = false);

Bytes bytes(const std::string& text);
inline std::span<const std::byte> file_of(const Bytes& bytes) {
  return std::as_bytes(std::span(bytes));
}

}  // namespace flotilla::test
