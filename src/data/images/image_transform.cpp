// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_transform.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/data/images/exif.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/jitter.hpp"
#include "src/data/images/random_crop.hpp"
#include "src/data/images/recognise_image.hpp"
#include "src/data/images/resizer.hpp"
#include "src/data/images/turning.hpp"

namespace flotilla {

namespace {

/// A thread's buffers, reused from image to image.
struct ThreadScratch {
  std::unique_ptr<ImageDecoder> jpeg = make_jpeg_decoder();
  std::unique_ptr<ImageDecoder> png = make_png_decoder();
  std::unique_ptr<Resizer> bilinear = make_resizer(ResizeFilter::bilinear);
  std::unique_ptr<Resizer> antialias = make_resizer(ResizeFilter::antialias);
  TurnedRows turned;

  Resizer& resizer(ResizeFilter filter) { return filter == ResizeFilter::bilinear ? *bilinear : *antialias; }
};

ThreadScratch& thread_scratch() {
  thread_local ThreadScratch scratch;
  return scratch;
}

/// The part of an image that becomes a sample, x.source by y.source pixels, and its axes.
struct Cut {
  Box source;
  AxisSpec x;
  AxisSpec y;
};

/// An image whose header is read.
class OpenImage {
 public:
  OpenImage(std::span<const std::byte> file, const ImageTransformSpec& spec)
      : scratch_(thread_scratch()),
        filter_(spec.filter),
        decoder_(recognise_image(file) == FileFormat::jpeg ? *scratch_.jpeg : *scratch_.png),
        turning_(spec.exif_orientation ? exif_orientation(file) : 1, decoder_.open(file)) {
    const Extent extent = turning_.upright();
    if (extent.width > spec.max_pixels / extent.height) {
      throw BadImage(cat("has ", extent.width, " x ", extent.height, " = ", extent.width * extent.height,
                         " pixels, more than data.max_pixels = ", spec.max_pixels,
                         "; make it smaller, or raise data.max_pixels if it is what it should be"));
    }
  }

  Extent extent() const { return turning_.upright(); }

  /// @param to and how: as Resizer::run
  template <class... To>
  void resize(const Cut& cut, const To&... to) {
    Resizer& resizer = scratch_.resizer(filter_);
    Box part = resizer.prepare(cut.x, cut.y);
    part.x += cut.source.x;
    part.y += cut.source.y;
    decoder_.start(turning_.stored(part));
    if (turning_.nothing()) return resizer.run(decoder_, to...);
    scratch_.turned.read(decoder_, turning_, part);
    resizer.run(scratch_.turned, to...);
  }

 private:
  ThreadScratch& scratch_;
  ResizeFilter filter_;
  ImageDecoder& decoder_;
  Turning turning_;
};

class TransformBase : public ImageTransform {
 public:
  explicit TransformBase(const ImageTransformSpec& spec)
      : spec_(spec), scaling_(flotilla::normalization(spec)) {
    const auto positive = [](float value) { return value > 0.0F; };
    require(spec.size > 0 && spec.max_pixels > 0 &&
                std::all_of(spec.deviation.begin(), spec.deviation.end(), positive),
            "an image transform needs a size, a limit of pixels and deviations above 0");
  }
  Shape sample_shape() const override { return {3, spec_.size, spec_.size}; }
  std::optional<ByteScaling> scaling() const override {
    return rounds_to_bytes(spec_.filter) ? std::optional(scaling_) : std::nullopt;
  }

 protected:
  const ImageTransformSpec& spec() const { return spec_; }
  const ByteScaling& normalization() const { return scaling_; }
  template <class Value>
  void check(std::span<Value> to) const {
    require(std::ssize(to) == sample_shape().size(), "a sample ", sample_shape().text(),
            " cannot be made in ", to.size(), " values");
  }

 private:
  ImageTransformSpec spec_;
  ByteScaling scaling_;
};

class TrainingTransform final : public TransformBase {
 public:
  explicit TrainingTransform(const ImageTransformSpec& spec)
      : TransformBase(spec),
        jitters_(spec.jitter.brightness > 0 || spec.jitter.contrast > 0 || spec.jitter.saturation > 0 ||
                 spec.jitter.hue > 0) {
    require(0 < spec.area_min && spec.area_min <= spec.area_max && 0 < spec.aspect_min &&
                spec.aspect_min <= spec.aspect_max,
            "random crops need areas and aspects above 0");
  }

  void apply(std::span<const std::byte> file, std::uint64_t variation, std::span<float> to) const override {
    check(to);
    OpenImage image(file, spec());
    Random random(variation, random_augmentation);
    const Cut cut = draw(image, random);
    if (!jitters_) return image.resize(cut, normalization(), to);
    constexpr float to_unit = 1.0F / 255.0F;
    image.resize(cut, ByteScaling{.factor = {to_unit, to_unit, to_unit}}, to);
    change_colours(draw_colour_change(random, spec().jitter), to);
    normalize(to);
  }
  std::optional<ByteScaling> scaling() const override {
    return jitters_ ? std::nullopt : TransformBase::scaling();
  }
  void apply_bytes(std::span<const std::byte> file, std::uint64_t variation,
                   std::span<std::uint8_t> to) const override {
    require(!jitters_, "colours are changed in floats");
    check(to);
    OpenImage image(file, spec());
    Random random(variation, random_augmentation);
    image.resize(draw(image, random), to);
  }

 private:
  Cut draw(const OpenImage& image, Random& random) const {
    const Box crop = random_crop(random, image.extent(), spec());
    const bool flip = random.uniform() < spec().flip;
    const std::int64_t size = spec().size;
    return {.source = crop,
            .x = {.source = crop.width, .target = size, .begin = 0, .count = size, .mirrored = flip},
            .y = {.source = crop.height, .target = size, .begin = 0, .count = size}};
  }

  /// Values in [0, 1] to samples.
  void normalize(std::span<float> to) const {
    const std::size_t plane = to.size() / 3;
    for (std::size_t c = 0; c < 3; ++c) {
      for (float& value : to.subspan(c * plane, plane)) {
        value = (value - spec().mean[c]) / spec().deviation[c];
      }
    }
  }

  bool jitters_;
};

class ValidationTransform final : public TransformBase {
 public:
  explicit ValidationTransform(const ImageTransformSpec& spec) : TransformBase(spec) {
    require(spec.short_side >= spec.size, "a centre crop of ", spec.size,
            " needs a shorter side of that length, not ", spec.short_side);
  }

  void apply(std::span<const std::byte> file, std::uint64_t /*variation*/,
             std::span<float> to) const override {
    check(to);
    OpenImage image(file, spec());
    image.resize(centre_of(image), normalization(), to);
  }
  void apply_bytes(std::span<const std::byte> file, std::uint64_t /*variation*/,
                   std::span<std::uint8_t> to) const override {
    check(to);
    OpenImage image(file, spec());
    image.resize(centre_of(image), to);
  }

 private:
  Cut centre_of(const OpenImage& image) const {
    const Extent extent = image.extent();
    const Extent target = with_short_side(extent, spec().short_side);
    const std::int64_t size = spec().size;
    return {.source = {0, 0, extent.width, extent.height},
            .x = {extent.width, target.width, centre_begin(target.width, size), size},
            .y = {extent.height, target.height, centre_begin(target.height, size), size}};
  }
};

}  // namespace

ByteScaling normalization(const ImageTransformSpec& spec) {
  ByteScaling scaling;
  for (std::size_t c = 0; c < 3; ++c) {
    scaling.factor[c] = static_cast<float>(1.0 / (255.0 * double{spec.deviation[c]}));
    scaling.offset[c] = static_cast<float>(-double{spec.mean[c]} / double{spec.deviation[c]});
  }
  return scaling;
}

void ImageTransform::apply_bytes(std::span<const std::byte> /*file*/, std::uint64_t /*variation*/,
                                 std::span<std::uint8_t> /*to*/) const {
  throw InternalError("samples of this transform are not bytes");
}

std::unique_ptr<ImageTransform> make_training_transform(const ImageTransformSpec& spec) {
  return std::make_unique<TrainingTransform>(spec);
}

std::unique_ptr<ImageTransform> make_validation_transform(const ImageTransformSpec& spec) {
  return std::make_unique<ValidationTransform>(spec);
}

}  // namespace flotilla
