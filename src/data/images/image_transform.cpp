// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/image_transform.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "src/data/images/image_decoder.hpp"
#include "src/data/images/orientation.hpp"
#include "src/data/images/resizer.hpp"

namespace flotilla {

namespace {

constexpr int crop_draws = 10;

double uniform(Random& random, double from, double to) {
  return from + (to - from) * random.uniform();
}

Box central_crop(const Extent& image, double aspect_min, double aspect_max) {
  Box crop{0, 0, image.width, image.height};
  const auto width = static_cast<double>(image.width);
  const auto height = static_cast<double>(image.height);
  if (width / height < aspect_min) crop.height = std::llround(width / aspect_min);
  if (width / height > aspect_max) crop.width = std::llround(height * aspect_max);
  crop.width = std::clamp<std::int64_t>(crop.width, 1, image.width);
  crop.height = std::clamp<std::int64_t>(crop.height, 1, image.height);
  crop.x = (image.width - crop.width) / 2;
  crop.y = (image.height - crop.height) / 2;
  return crop;
}

}  // namespace

Box random_crop(Random& random, const Extent& image, const ImageTransformSpec& spec) {
  const double whole = static_cast<double>(image.width) * static_cast<double>(image.height);
  for (int draw = 0; draw < crop_draws; ++draw) {
    const double area = whole * uniform(random, spec.area_min, spec.area_max);
    const double aspect = std::exp(uniform(random, std::log(spec.aspect_min), std::log(spec.aspect_max)));
    const std::int64_t width = std::llround(std::sqrt(area * aspect));
    const std::int64_t height = std::llround(std::sqrt(area / aspect));
    if (width < 1 || height < 1 || width > image.width || height > image.height) continue;
    const std::int64_t y = below(random, image.height - height + 1);
    const std::int64_t x = below(random, image.width - width + 1);
    return {x, y, width, height};
  }
  return central_crop(image, spec.aspect_min, spec.aspect_max);
}

Extent with_short_side(const Extent& image, std::int64_t short_side) {
  const auto longer = [&](std::int64_t length, std::int64_t shorter) {
    return static_cast<std::int64_t>(static_cast<double>(short_side * length) / static_cast<double>(shorter));
  };
  if (image.width <= image.height) return {short_side, longer(image.height, image.width)};
  return {longer(image.width, image.height), short_side};
}

std::int64_t centre_begin(std::int64_t length, std::int64_t size) {
  const std::int64_t twice = length - size;
  // A half is rounded to the even neighbour, as Python's round does.
  return twice / 2 + (twice % 4 == 3 ? 1 : 0);
}

namespace {

/// The three planes of an image.
struct Planes {
  explicit Planes(std::span<float> all)
      : red(all.first(all.size() / 3)),
        green(all.subspan(red.size(), red.size())),
        blue(all.last(red.size())) {}

  std::span<float> red, green, blue;
};

float unit(float value) {
  return std::clamp(value, 0.0F, 1.0F);
}

/// Luma, ITU-R BT.601 with torchvision's digits.
float grey(const Planes& p, std::size_t i) {
  return 0.2989F * p.red[i] + 0.587F * p.green[i] + 0.114F * p.blue[i];
}

void blend(float& value, float with, float share) {
  value = unit(share * value + (1.0F - share) * with);
}

void change_contrast(std::span<float> all, float factor) {
  const Planes planes(all);
  double sum = 0.0;
  for (std::size_t i = 0; i < planes.red.size(); ++i) sum += grey(planes, i);
  const auto mean = static_cast<float>(sum / static_cast<double>(planes.red.size()));
  for (float& value : all) blend(value, mean, factor);
}

void change_saturation(std::span<float> all, float factor) {
  const Planes planes(all);
  for (std::size_t i = 0; i < planes.red.size(); ++i) {
    const float luma = grey(planes, i);
    for (const auto& plane : {planes.red, planes.green, planes.blue}) blend(plane[i], luma, factor);
  }
}

/// Hue in turns, 0: red, 1/3: green, 2/3: blue (Smith, SIGGRAPH 1978). `high` > `low`.
float hue_of(float red, float green, float blue, float high, float low) {
  const float range = high - low;
  float sixths = 0.0F;
  if (high == red) {
    sixths = (green - blue) / range;
  } else if (high == green) {
    sixths = 2.0F + (blue - red) / range;
  } else {
    sixths = 4.0F + (red - green) / range;
  }
  return sixths / 6.0F;
}

/// The part of a primary colour, whose own hue is 0, in a colour with the given hue, largest and smallest
/// part.
float part(float hue, float high, float low) {
  const float distance = std::abs(hue - std::round(hue)) * 6.0F;  // 0 … 3 sixths on the circle
  return low + (high - low) * unit(2.0F - distance);
}

void change_hue(std::span<float> all, float shift) {
  const Planes planes(all);
  for (std::size_t i = 0; i < planes.red.size(); ++i) {
    float& red = planes.red[i];
    float& green = planes.green[i];
    float& blue = planes.blue[i];
    const float high = std::max({red, green, blue});
    const float low = std::min({red, green, blue});
    if (high == low) continue;
    const float hue = hue_of(red, green, blue, high, low) + shift;
    red = part(hue, high, low);
    green = part(hue - 1.0F / 3.0F, high, low);
    blue = part(hue - 2.0F / 3.0F, high, low);
  }
}

}  // namespace

ColourChange draw_colour_change(Random& random, const ColorJitter& jitter) {
  const auto uniform = [&](double from, double to) {
    return static_cast<float>(from + (to - from) * random.uniform());
  };
  const auto factor = [&](double range) { return uniform(std::max(0.0, 1.0 - range), 1.0 + range); };
  ColourChange change;
  for (std::size_t i = change.order.size() - 1; i > 0; --i)
    std::swap(change.order[i], change.order[random.below(i + 1)]);
  change.amount = {factor(jitter.brightness), factor(jitter.contrast), factor(jitter.saturation),
                   uniform(-jitter.hue, jitter.hue)};
  return change;
}

void change_colours(const ColourChange& change, std::span<float> planes) {
  for (const ColourChange::Kind kind : change.order) {
    const float amount = change.amount[kind];
    if (amount == (kind == ColourChange::hue ? 0.0F : 1.0F)) continue;
    switch (kind) {
      case ColourChange::brightness:
        for (float& value : planes) value = unit(amount * value);
        break;
      case ColourChange::contrast: change_contrast(planes, amount); break;
      case ColourChange::saturation: change_saturation(planes, amount); break;
      case ColourChange::hue: change_hue(planes, amount); break;
    }
  }
}

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
