// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/data/images/picture.hpp"

namespace flotilla {

/// The orientation of a photograph: 1 (upright) … 8, the value of EXIF tag 0x0112 in a JPEG file's APP1
/// segment or a PNG file's eXIf chunk. 1 if there is none, or none that can be understood.
int exif_orientation(std::span<const std::byte> file);

/// The mapping of pixels of an upright image to its file, by EXIF orientation 1 … 8.
class Turning {
 public:
  Turning(int orientation, const Extent& stored);

  bool nothing() const { return !swaps_ && !from_right_ && !from_bottom_; }  ///< Stored upright.
  Extent upright() const;                ///< Extent of the image shown upright.
  Box stored(const Box& upright) const;  ///< The region of the file that holds a part of the upright image.
  /// The position in the upright part of column x, row y of a part with extent `stored`.
  Box upright(std::int64_t x, std::int64_t y, const Extent& stored) const;

 private:
  bool swaps_;  ///< The file's rows are columns.
  bool from_right_;
  bool from_bottom_;
  Extent stored_;
};

/// The rows of a part of an image shown upright. Holds the whole part.
class TurnedRows final : public RowSource {
 public:
  /// Reads the rows of turning.stored(part) from `rows`.
  void read(RowSource& rows, const Turning& turning, const Box& part);
  void next(std::span<const Pixel*> rows) override;

 private:
  std::vector<Pixel> pixels_;
  std::int64_t width_ = 0;
  std::int64_t row_ = 0;
};

}  // namespace flotilla
