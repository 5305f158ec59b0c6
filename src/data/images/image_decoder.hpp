// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>

#include "src/data/data_file.hpp"
#include "src/data/images/picture.hpp"

namespace flotilla {

/// A file is not a usable image. what() is a predicate without its subject ("is empty", "is a GIF
/// file; convert it to JPEG or PNG"), to follow "<path>: ".
struct BadImage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Decodes a part of one image after another, in buffers that it keeps. For one thread.
class ImageDecoder : public RowSource {
 public:
  /// Reads the header. `file` must stay until the last row is read. @throws BadImage
  virtual Extent open(std::span<const std::byte> file) = 0;
  /// Selects the rows of `region`, which lies inside the image and is not empty. The values equal those of
  /// decoding the whole image. Once after each open. @throws BadImage
  virtual void start(const Box& region) = 0;
};

/// libjpeg-turbo: grey, YCbCr, RGB, CMYK, YCCK; baseline, progressive, arithmetic coding; 8 bits. Four inks
/// are taken as inverted, as Adobe writes them and every reader assumes. A file that ends too early is a
/// BadImage wherever the region lies; other damage is handled by the library.
std::unique_ptr<ImageDecoder> make_jpeg_decoder();

/// libpng: all colour types and depths, interlaced or not. Alpha is dropped (the colour below it stays), 16
/// bits become their upper 8, gamma is not applied.
std::unique_ptr<ImageDecoder> make_png_decoder();

/// FileFormat::jpeg or png by the first bytes of a file; its name is ignored.
/// @throws BadImage that says what else the file is ("is an HTML page …", "is an empty file …").
FileFormat recognise_image(std::span<const std::byte> file);

}  // namespace flotilla
