// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace flotilla {

/// Four bytes in this order in memory: red, green, blue, and one without meaning.
using Pixel = std::uint32_t;

/// Width and height of an image in pixels.
struct Extent {
  std::int64_t width = 0;
  std::int64_t height = 0;
  friend bool operator==(const Extent&, const Extent&) = default;
};

/// A rectangle of pixels: columns x … x + width − 1, rows y … y + height − 1.
struct Box {
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
  friend bool operator==(const Box&, const Box&) = default;
};

/// Rows of pixels, from top to bottom, each delivered once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  /// Points `rows` at the next rows, which stay until the next call. At most max_rows at a time, which is
  /// at least as many as are resized side by side.
  /// @throws BadImage if the file is damaged there.
  virtual void next(std::span<const Pixel*> rows) = 0;

  static constexpr int max_rows = 16;
};

}  // namespace flotilla
