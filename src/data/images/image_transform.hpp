// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/host_batch.hpp"
#include "kernels/random.hpp"
#include "kernels/tensor.hpp"
#include "src/config/data_config.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/picture.hpp"

namespace flotilla {

/// Ranges of torchvision's ColorJitter: factors are drawn from [max(0, 1 − x), 1 + x], the hue's shift from
/// [−hue, hue] of the circle, in a random order. All 0: off.
struct ColorJitter {
  double brightness = 0;  ///< ≥ 0
  double contrast = 0;    ///< ≥ 0
  double saturation = 0;  ///< ≥ 0
  double hue = 0;         ///< 0 … 0.5
};

/// The transform of an image from its file to the network's input.
struct ImageTransformSpec {
  std::int64_t size = 224;        ///< Height and width of a sample.
  std::int64_t short_side = 256;  ///< Validation: the shorter side before the centre crop. ≥ size.
  ResizeFilter filter = ResizeFilter::bilinear;
  double area_min = 0.08;  ///< Training: the crop's share of the image's area, 0 < area_min ≤ area_max.
  double area_max = 1.0;
  double aspect_min = 3.0 / 4.0;  ///< Training: the crop's width ÷ height, 0 < aspect_min ≤ aspect_max.
  double aspect_max = 4.0 / 3.0;
  double flip = 0.5;                                     ///< Training: probability of left ↔ right.
  ColorJitter jitter = {};                               ///< Training.
  std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};  ///< Mean of red, green and blue in [0, 1].
  std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};
  bool exif_orientation = false;  ///< Rotate the image as its EXIF data say, as image viewers do.
  /// Images with more pixels are BadImages, read no further than their header. The default is PIL's limit.
  std::int64_t max_pixels = 178'956'970;
};

/// Turns the bytes of a JPEG or PNG file into a sample: (value / 255 − mean) / deviation, planes R, G, B; or
/// into unscaled bytes, for the device to scale.
/// Decodes everything that libjpeg-turbo does (grey, CMYK and YCCK in Adobe's inverted convention,
/// progressive, any sampling) and every PNG; alpha is dropped and 16 bits become their upper 8, as PIL does.
class ImageTransform {
 public:
  virtual ~ImageTransform() = default;
  virtual Shape sample_shape() const = 0;  ///< 3 x size x size
  /// Writes the sample of `file`. `to` holds sample_shape().size() floats. Randomness is a function of
  /// `variation` alone. Safe from several threads at once; each keeps its buffers for the next image.
  /// @throws BadImage if the file is not a whole JPEG or PNG image or has too many pixels.
  virtual void apply(std::span<const std::byte> file, std::uint64_t variation, std::span<float> to) const = 0;
  /// The scaling of bytes to the values of a sample, if the transform ends in bytes; otherwise empty.
  virtual std::optional<ByteScaling> scaling() const { return {}; }
  /// Like apply() without the scaling, in the order (H,W,C). Only if scaling() is not empty.
  virtual void apply_bytes(std::span<const std::byte> file, std::uint64_t variation,
                           std::span<std::uint8_t> to) const;
};

/// (v / 255 − mean) / deviation of red, green and blue.
ByteScaling normalization(const ImageTransformSpec& spec);

/// A crop of random area, aspect and place resized to size x size, a random flip, colour jitter
/// (torchvision's RandomResizedCrop, RandomHorizontalFlip, ColorJitter).
std::unique_ptr<ImageTransform> make_training_transform(const ImageTransformSpec& spec);

/// The image resized to `short_side`, and the size x size pixels in its centre (torchvision's Resize and
/// CenterCrop). Where the shorter side is that long already, pixels pass unchanged. `variation` is not used.
std::unique_ptr<ImageTransform> make_validation_transform(const ImageTransformSpec& spec);

/// Draws a crop inside an image: area uniform in [area_min, area_max] of the image's, logarithm of width ÷
/// height uniform in [aspect_min, aspect_max]. After ten draws that do not fit, the largest central crop
/// whose aspect does (torchvision's RandomResizedCrop.get_params).
Box random_crop(Random& random, const Extent& image, const ImageTransformSpec& spec);

/// Extent after a resize that makes the shorter side `short_side`, the longer one rounded down (torchvision's
/// Resize).
Extent with_short_side(const Extent& image, std::int64_t short_side);

/// The start of a centre crop of `size` on a side of `length`: torchvision's rounding, half to even.
std::int64_t centre_begin(std::int64_t length, std::int64_t size);

/// A random change of colours: brightness, contrast, saturation are factors (1: unchanged), hue a shift in
/// turns of the circle (0: unchanged).
struct ColourChange {
  enum Kind { brightness, contrast, saturation, hue };
  std::array<Kind, 4> order = {brightness, contrast, saturation, hue};
  std::array<float, 4> amount = {1.0F, 1.0F, 1.0F, 0.0F};  ///< Amount of each kind.
};

/// Draws order and amounts (torchvision's ColorJitter.get_params).
ColourChange draw_colour_change(Random& random, const ColorJitter& jitter);

/// Changes colours in place, one kind after the other, each clamped to [0, 1]. `planes` holds R, G, B of
/// equal size, values in [0, 1]. The formulas are those of torchvision for float tensors.
void change_colours(const ColourChange& change, std::span<float> planes);

}  // namespace flotilla
