// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/image_layout.hpp"

#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/onednn/descriptors.hpp"
#include "kernels/onednn/primitive_scope.hpp"

namespace flotilla {

namespace {

using Tag = dnnl::memory::format_tag;

std::int64_t lanes_of(Tag tag) {
  if (tag == Tag::nchw) return 1;
  return tag == Tag::nChw8c ? 8 : 16;
}

Tag favourite(const dnnl::engine& engine) {
  const dnnl::memory::dims image = {8, 64, 28, 28};
  const auto any = [](const dnnl::memory::dims& dims) {
    return dnnl::memory::desc(dims, dnnl::memory::data_type::f32, Tag::any);
  };
  const auto description = made("the description of a convolution", [&] {
    return descriptors::forward(engine, {any(image), any({64, 64, 3, 3}), {}, any(image), {1, 1}, {1, 1}});
  });
  for (const Tag tag : {Tag::nChw16c, Tag::nChw8c, Tag::nhwc}) {
    if (description.dst_desc() == described({8, 64, 28, 28}, tag)) return tag;
  }
  return Tag::nchw;
}

}  // namespace

ImageLayout::ImageLayout(const Shape& shape, Tag with)
    : tag(with),
      images(shape[0]),
      channels(shape[1]),
      pixels(shape[2] * shape[3]),
      lanes(lanes_of(with)),
      blocks(channels / lanes),
      block_stride(with == Tag::nhwc ? lanes : pixels * lanes),
      pixel_stride(with == Tag::nhwc ? channels : lanes) {}

ImageLayouts::ImageLayouts(const dnnl::engine& engine) : tag_(favourite(engine)) {}

ImageLayout ImageLayouts::of(const Shape& shape) const {
  require(shape.rank() == 4, "an image tensor has four axes, got ", shape.text());
  // One pixel lies alike in every layout: a plain (N,C) as well.
  const bool plain = shape[1] % lanes_of(tag_) != 0 || shape[2] * shape[3] == 1;
  return {shape, plain ? Tag::nchw : tag_};
}

dnnl::memory::desc described(const Shape& shape, Tag tag) {
  return {{shape[0], shape[1], shape[2], shape[3]}, dnnl::memory::data_type::f32, tag};
}

void check_image(const char* name, const Tensor& tensor, const Shape& shape, const ImageLayout& expected) {
  check_image(name, tensor, shape);
  const auto* const layout = dynamic_cast<const ImageLayout*>(tensor.layout());
  const Tag tag = layout == nullptr ? Tag::nchw : layout->tag;
  require(tag == expected.tag, name, " (", shape.text(), ") does not lie as this device's image tensors do");
}

}  // namespace flotilla
