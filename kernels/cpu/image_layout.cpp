// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/image_layout.hpp"

#include <algorithm>

#include "kernels/cpu/descriptors.hpp"
#include "kernels/cpu/native_precisions.hpp"
#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"

namespace flotilla {

namespace {

using Tag = dnnl::memory::format_tag;

constexpr auto float32 = dnnl::memory::data_type::f32;

/// The number of lanes of a float32 layout.
std::int64_t lanes_of(Tag tag) {
  if (tag == Tag::nchw) return 1;
  return tag == Tag::nChw8c ? 8 : 16;
}

std::int64_t largest_divisor(std::int64_t number, std::int64_t limit) {
  std::int64_t divisor = std::min(number, limit);
  while (number % divisor != 0) --divisor;
  return divisor;
}

Tag favourite(const dnnl::engine& engine) {
  const dnnl::memory::dims image = {8, 64, 28, 28};
  const auto any = [](const dnnl::memory::dims& dims) { return dnnl::memory::desc(dims, float32, Tag::any); };
  const auto description = made("the description of a convolution", [&] {
    return descriptors::forward(engine, {any(image), any({64, 64, 3, 3}), {}, any(image), {1, 1}, {1, 1}});
  });
  for (const Tag tag : {Tag::nChw16c, Tag::nChw8c, Tag::nhwc}) {
    if (description.dst_desc() == described({8, 64, 28, 28}, tag, float32)) return tag;
  }
  return Tag::nchw;
}

Tag favourite_of_bfloat16() {
  return native_precisions().bfloat16 == "AMX" ? Tag::nhwc : Tag::nChw16c;
}

}  // namespace

ImageLayout::ImageLayout(const Shape& shape, Tag with, std::int64_t block_lanes)
    : tag(with),
      images(shape[0]),
      channels(shape[1]),
      pixels(shape[2] * shape[3]),
      lanes(block_lanes),
      blocks(channels / lanes),
      block_stride(with == Tag::nhwc ? lanes : pixels * lanes),
      pixel_stride(with == Tag::nhwc ? channels : lanes) {}

ImageLayouts::ImageLayouts(const dnnl::engine& engine, Precision precision, int threads)
    : precision_(precision),
      threads_(threads),
      tag_(is_half(precision) ? favourite_of_bfloat16() : favourite(engine)) {}

std::int64_t ImageLayouts::lanes_of_bfloat16(const Shape& shape) const {
  constexpr std::int64_t min_units = 4;  // for each thread
  constexpr std::int64_t min_lanes = 128;
  const std::int64_t images = shape[0];
  const std::int64_t channels = shape[1];
  const std::int64_t shared = channels * images / (min_units * threads_);
  return largest_divisor(channels, std::clamp(shared, min_lanes, max_lanes));
}

ImageLayout ImageLayouts::of(const Shape& shape) const {
  require(shape.rank() == 4, "an image tensor has four axes, got ", shape.text());
  constexpr std::int64_t max_plain_channels = 4;
  const std::int64_t channels = shape[1];
  // A single pixel is the same in every layout, in a plain (N,C) too.
  const bool one_pixel = shape[2] * shape[3] == 1;
  if (is_half(precision_)) {
    if (channels <= max_plain_channels || one_pixel) return {shape, Tag::nchw, 1};
    if (tag_ == Tag::nhwc || channels % lanes_of(tag_) != 0)
      return {shape, Tag::nhwc, lanes_of_bfloat16(shape)};
    return {shape, tag_, lanes_of(tag_)};
  }
  const bool plain = channels % lanes_of(tag_) != 0 || one_pixel;
  return plain ? ImageLayout(shape, Tag::nchw, 1) : ImageLayout(shape, tag_, lanes_of(tag_));
}

dnnl::memory::desc described(const Shape& shape, Tag tag, dnnl::memory::data_type type) {
  return {{shape[0], shape[1], shape[2], shape[3]}, type, tag};
}

void check_image(const char* name, const Tensor& tensor, const Shape& shape, const ImageLayout& expected) {
  check_image(name, tensor, shape);
  const auto* const layout = dynamic_cast<const ImageLayout*>(tensor.layout());
  const Tag tag = layout == nullptr ? Tag::nchw : layout->tag;
  require(tag == expected.tag, name, " (", shape.text(), ") does not lie as this device's image tensors do");
}

}  // namespace flotilla
