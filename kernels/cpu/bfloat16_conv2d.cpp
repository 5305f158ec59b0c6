// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bfloat16_conv2d.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/conv2d.hpp"
#include "kernels/cpu/descriptors.hpp"
#include "kernels/error.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

/// The outputs along one axis, begin … end − 1, whose kernel sees this place of the image.
BlockRange windows_of(const Conv2dSpec& s, std::int64_t place, std::int64_t outputs) {
  const std::int64_t from_first = place + s.padding;
  const std::int64_t begin = std::max<std::int64_t>(0, (from_first - s.kernel + s.stride) / s.stride);
  return {begin, std::min(outputs, from_first / s.stride + 1)};
}

/// rows (N·H'·W', K, K, C), a row for each pixel of the output: what the kernel sees of x there, zero beyond
/// the image. Images lie as (N,H,W,C).
void gather_rows(int threads, const Conv2dSpec& s, const Bfloat16* x, Bfloat16* rows) {
  const Shape output = output_shape(s);
  const std::int64_t channels = s.input[1];
  const std::int64_t height = s.input[2];
  const std::int64_t width = s.input[3];
  const std::int64_t line = s.kernel * channels;  // of a kernel
  const std::int64_t count = output[0] * output[2];
  in_parts(threads_for(threads, count * output[3] * s.kernel * line), count, [&](auto first, auto last) {
    for (std::int64_t row = first; row < last; ++row) {
      const std::int64_t image = row / output[2];
      const std::int64_t top = row % output[2] * s.stride - s.padding;
      for (std::int64_t q = 0; q < output[3]; ++q) {
        const std::int64_t left = q * s.stride - s.padding;
        const std::int64_t before = std::max<std::int64_t>(0, -left);
        const std::int64_t inside = std::max(before, std::min(s.kernel, width - left));
        Bfloat16* to = rows + (row * output[3] + q) * s.kernel * line;
        for (std::int64_t h = top; h < top + s.kernel; ++h, to += line) {
          if (h < 0 || h >= height) {
            std::fill_n(to, line, Bfloat16{});
            continue;
          }
          const Bfloat16* const from = x + ((image * height + h) * width + left) * channels;
          std::fill(to, to + before * channels, Bfloat16{});
          std::copy(from + before * channels, from + inside * channels, to + before * channels);
          std::fill(to + inside * channels, to + line, Bfloat16{});
        }
      }
    }
  });
}

/// dx (N,H,W,C) from rows (N·H'·W', K, K, C), one for each pixel of the output: adds up what each value of x
/// got from the places of the kernel that saw it, and rounds the sum. N is that of the spec's input.
void sum_rows(int threads, const Conv2dSpec& s, const float* rows, Bfloat16* dx) {
  const Shape output = output_shape(s);
  const std::int64_t channels = s.input[1];
  const std::int64_t height = s.input[2];
  const std::int64_t width = s.input[3];
  const std::int64_t count = s.input[0] * height;
  in_parts(threads_for(threads, count * width * channels), count, [&](auto first, auto last) {
    for (std::int64_t line = first; line < last; ++line) {
      const std::int64_t image = line / height;
      const std::int64_t h = line % height;
      const BlockRange down = windows_of(s, h, output[2]);
      for (std::int64_t w = 0; w < width; ++w) {
        const BlockRange right = windows_of(s, w, output[3]);
        Bfloat16* const to = dx + (line * width + w) * channels;
        for (std::int64_t begin = 0; begin < channels; begin += max_lanes) {
          const std::int64_t lanes = std::min(max_lanes, channels - begin);
          std::array<float, max_lanes> sums;
          std::fill_n(sums.begin(), lanes, 0.0F);
          for (std::int64_t p = down.begin; p < down.end; ++p) {
            for (std::int64_t q = right.begin; q < right.end; ++q) {
              const std::int64_t row = (image * output[2] + p) * output[3] + q;
              const std::int64_t kh = h + s.padding - p * s.stride;
              const std::int64_t kw = w + s.padding - q * s.stride;
              const float* const from = rows + ((row * s.kernel + kh) * s.kernel + kw) * channels + begin;
#pragma omp simd
              for (std::int64_t c = 0; c < lanes; ++c) sums[static_cast<std::size_t>(c)] += from[c];
            }
          }
#pragma omp simd
          for (std::int64_t c = 0; c < lanes; ++c)
            to[begin + c] = from_float<Bfloat16>(sums[static_cast<std::size_t>(c)]);
        }
      }
    }
  });
}

using Tag = dnnl::memory::format_tag;
using Type = dnnl::memory::data_type;

dnnl::memory::desc image(const Shape& shape, Tag tag) {
  return described(shape, tag, Type::bf16);
}

/// The layout of image tensors. A single pixel is the same in every layout: it is described as nhwc, which
/// convolutions prefer.
dnnl::memory::desc kept(const Shape& shape, const ImageLayout& layout) {
  return image(shape, layout.pixels == 1 ? Tag::nhwc : layout.tag);
}

/// (rows, columns) of a matrix; with `turned` the transpose of what lies in memory.
dnnl::memory::desc matrix(std::int64_t rows, std::int64_t columns, Type type, bool turned = false) {
  return {{rows, columns}, type, turned ? Tag::ba : Tag::ab};
}

/// The layouts that a convolution's images are asked for in.
struct Tags {
  Tag source, destination;
};
constexpr Tags any_tags = {Tag::any, Tag::any};

/// Blocks, and the plain images before them, as they lie, all others as (N,H,W,C).
Tags asked_tags(const ImageLayout& source, const ImageLayout& destination) {
  const auto is_block = [](const ImageLayout& layout) { return layout.tag == Tag::nChw16c; };
  const bool before_blocks = is_block(destination) && source.tag == Tag::nchw && source.pixels > 1;
  return {is_block(source) || before_blocks ? source.tag : Tag::nhwc,
          is_block(destination) ? destination.tag : Tag::nhwc};
}

descriptors::Convolution convolution(const Conv2dSpec& s, const Tags& tags) {
  const dnnl::memory::dims bias = {s.out_channels};
  return {image(s.input, tags.source),
          {weight_dims(s), Type::bf16, Tag::any},
          s.bias ? dnnl::memory::desc(bias, Type::f32, Tag::x) : dnnl::memory::desc(),
          image(output_shape(s), tags.destination),
          {s.stride, s.stride},
          {s.padding, s.padding}};
}

descriptors::Convolution with_float32_weights(descriptors::Convolution of, const Conv2dSpec& s) {
  of.weights = {weight_dims(s), Type::f32, Tag::any};
  return of;
}

/// describe(a convolution of images in these layouts), or, if the library has only plain loops for that,
/// describe(one of images in the layout that it prefers).
template <class Describe>
auto described_by(const Conv2dSpec& spec, const Tags& tags, const Describe& describe) {
  const auto asked = describe(convolution(spec, tags));
  const bool plain_loops = std::string_view(asked.impl_info_str()).starts_with("ref");
  return plain_loops ? describe(convolution(spec, any_tags)) : asked;
}

/// The layout of the halves of weights that lie in this one; itself where halves have no such layout.
dnnl::memory::desc in_bfloat16(const dnnl::memory::desc& weight, const Conv2dSpec& s) {
  for (const Tag tag : {Tag::OIhw16i16o, Tag::Ohwi16o, Tag::ohwi}) {
    if (s.groups == 1 && weight == dnnl::memory::desc(weight_dims(s), Type::f32, tag))
      return {weight_dims(s), Type::bf16, tag};
  }
  return weight;
}

}  // namespace

CpuBfloat16Conv2d::CpuBfloat16Conv2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                                     const Conv2dSpec& spec)
    : scope_(std::move(scope)),
      spec_(checked(spec)),
      source_(layouts.of(spec.input)),
      destination_(layouts.of(flotilla::output_shape(spec))) {
  scope_->set_threads();
  made("the primitives of a convolution", [&] { make_operations(); });
}

bool CpuBfloat16Conv2d::are_rows(const ImageLayout& layout) const {
  return layout.tag == Tag::nhwc || layout.pixels == 1 || layout.channels == 1;
}

bool CpuBfloat16Conv2d::is_dense() const {
  return spec_.kernel == 1 && spec_.stride == 1 && spec_.padding == 0;
}

// ResNet-50, 16 images, 2 threads, oneDNN 2.6.3, ms as convolution and as product with what surrounds it
// (Sapphire Rapids): 512 x 7 x 7 to 512 by 3 x 3, weights 19.5 and 8, images 17.5 and 12; 256 x 28 x 28 to
// 256 by 3 x 3 in strides of 2, weights 17 and 8, images 20 and 10; 512 x 7 x 7 to 2048 by 1 x 1, weights 15
// and 3, images 5.7 and 2.6; but 64 x 56 x 56 to 64 by 3 x 3, weights 7 and 15; 256 x 14 x 14 to 256 by 3 x
// 3, images 5.4 and 8.3.
bool CpuBfloat16Conv2d::has_weights_by_product() const {
  if (spec_.groups > 1 || spec_.bias || !are_rows(source_) || !are_rows(destination_)) return false;
  constexpr std::int64_t few_pixels = 14 * 14;
  return spec_.kernel == 1 || spec_.stride > 1 || destination_.pixels <= few_pixels;
}

bool CpuBfloat16Conv2d::has_data_by_product() const {
  return has_weights_by_product() && (spec_.kernel == 1 || spec_.stride > 1 || destination_.pixels <= 7 * 7);
}

std::int64_t CpuBfloat16Conv2d::parts_of_rows(std::int64_t bytes) const {
  if (is_dense()) return 1;
  constexpr std::int64_t max_bytes = 16 << 20;  // of rows, which are read from the cache again
  const std::int64_t images = spec_.input[0];
  const std::int64_t of_image = destination_.pixels * bytes;
  std::int64_t parts = std::min(images, (images * of_image + max_bytes - 1) / max_bytes);
  while (images % parts != 0) ++parts;
  scope_->reserve_rows(static_cast<std::size_t>(images / parts * of_image));
  return parts;
}

Conv2dSpec CpuBfloat16Conv2d::part(std::int64_t parts) const {
  Conv2dSpec part = spec_;
  part.input = {spec_.input[0] / parts, spec_.input[1], spec_.input[2], spec_.input[3]};
  return part;
}

Operation CpuBfloat16Conv2d::weights_by_product(bool add) const {
  const std::int64_t columns = spec_.input[1] * spec_.kernel * spec_.kernel;
  const std::int64_t rows = destination_.images / weight_parts_ * destination_.pixels;
  const descriptors::Product product{matrix(spec_.out_channels, rows, Type::bf16, true),
                                     matrix(rows, columns, Type::bf16),
                                     matrix(spec_.out_channels, columns, Type::f32), add};
  const auto description = descriptors::product(scope_->engine(), product);
  return {scope_,
          dnnl::matmul(description),
          description.scratchpad_desc(),
          {{DNNL_ARG_WEIGHTS, product.weights, description.weights_desc()},
           {DNNL_ARG_SRC, product.source, description.src_desc()},
           {DNNL_ARG_DST, product.destination, description.dst_desc(), Flow::out}}};
}

Operation CpuBfloat16Conv2d::data_by_product() {
  const std::int64_t out = spec_.out_channels;
  const std::int64_t columns = spec_.input[1] * spec_.kernel * spec_.kernel;
  data_parts_ = parts_of_rows(columns * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t rows = destination_.images / data_parts_ * destination_.pixels;
  const descriptors::Product product{matrix(rows, out, Type::bf16),
                                     {{out, columns}, Type::bf16, Tag::any},
                                     matrix(rows, columns, is_dense() ? Type::bf16 : Type::f32)};
  const auto description = descriptors::product(scope_->engine(), product);
  return {scope_,
          dnnl::matmul(description),
          description.scratchpad_desc(),
          {{DNNL_ARG_SRC, product.source, description.src_desc()},
           {DNNL_ARG_WEIGHTS, matrix(out, columns, Type::bf16), description.weights_desc()},
           {DNNL_ARG_DST, product.destination, description.dst_desc(), Flow::out}}};
}

void CpuBfloat16Conv2d::make_operations() {
  const dnnl::memory::desc source = kept(spec_.input, source_);
  const dnnl::memory::desc destination = kept(output_shape(), destination_);
  const dnnl::engine& engine = scope_->engine();
  const Tags tags = asked_tags(source_, destination_);
  const auto forward = described_by(
      spec_, tags, [&](const descriptors::Convolution& of) { return descriptors::forward(engine, of); });
  const dnnl::memory::desc bias = convolution(spec_, any_tags).bias;

  if (has_weights_by_product()) {
    weight_ = {weight_dims(spec_), Type::f32, Tag::ohwi};
    const std::int64_t columns = spec_.input[1] * spec_.kernel * spec_.kernel;
    weight_parts_ = parts_of_rows(columns * static_cast<std::int64_t>(sizeof(Bfloat16)));
    backward_weights_ = weights_by_product(spec_.accumulate);
    if (weight_parts_ > 1) add_weights_ = weights_by_product(true);
  } else {
    const auto weights = described_by(spec_, tags, [&](const descriptors::Convolution& of) {
      return descriptors::backward_weights(engine, with_float32_weights(of, spec_), forward);
    });
    weight_ = weights.diff_weights_desc();
    const Flow gradients = spec_.accumulate ? Flow::add : Flow::out;
    std::vector<Argument> operands = {
        {DNNL_ARG_SRC, source, weights.src_desc()},
        {DNNL_ARG_DIFF_DST, destination, weights.diff_dst_desc()},
        {DNNL_ARG_DIFF_WEIGHTS, weight_, weights.diff_weights_desc(), gradients}};
    if (spec_.bias) operands.push_back({DNNL_ARG_DIFF_BIAS, bias, bias, gradients});
    backward_weights_ =
        Operation(scope_, dnnl::convolution_backward_weights(weights), weights.scratchpad_desc(), operands);
  }

  read_weight_ = in_bfloat16(weight_, spec_);
  std::vector<Argument> operands = {{DNNL_ARG_SRC, source, forward.src_desc()},
                                    {DNNL_ARG_WEIGHTS, read_weight_, forward.weights_desc()},
                                    {DNNL_ARG_DST, destination, forward.dst_desc(), Flow::out}};
  if (spec_.bias) operands.push_back({DNNL_ARG_BIAS, bias, bias});
  forward_ = Operation(scope_, dnnl::convolution_forward(forward), forward.scratchpad_desc(), operands);

  if (!spec_.input_gradient) return;
  if (has_data_by_product()) {
    backward_data_ = data_by_product();
    return;
  }
  const auto data = described_by(spec_, tags, [&](const descriptors::Convolution& of) {
    return descriptors::backward_data(engine, of, forward);
  });
  backward_data_ = Operation(scope_, dnnl::convolution_backward_data(data), data.scratchpad_desc(),
                             {{DNNL_ARG_DIFF_DST, destination, data.diff_dst_desc()},
                              {DNNL_ARG_WEIGHTS, read_weight_, data.weights_desc()},
                              {DNNL_ARG_DIFF_SRC, source, data.diff_src_desc(), Flow::out}});
}

std::int64_t CpuBfloat16Conv2d::weight_size() const {
  return static_cast<std::int64_t>(weight_.get_size() / sizeof(float));
}

const void* CpuBfloat16Conv2d::read_weight(const Weights& w) const {
  check_weights(spec_, weight_size(), w.weight.size(), w.bias.size());
  if (read_weight_ == weight_) return w.weight.address();
  check_halves(w);
  return w.half_weight.address();
}

void CpuBfloat16Conv2d::forward(const Tensor& x, Weights w, Tensor& y) {
  check_image("x", x, spec_.input, source_);
  check_image("y", y, output_shape(), destination_);
  const void* const weight = read_weight(w);
  if (spec_.bias) {
    forward_.run({x.span().address(), weight, y.span().address(), w.bias.address()});
  } else {
    forward_.run({x.span().address(), weight, y.span().address()});
  }
}

void CpuBfloat16Conv2d::backward_data(const Tensor& dy, Weights w, Tensor& dx) {
  require(backward_data_.made(), "this convolution was made without backward_data");
  check_image("dy", dy, output_shape(), destination_);
  check_image("dx", dx, spec_.input, source_);
  const void* const weight = read_weight(w);
  const Bfloat16* from = values_as<Bfloat16>(dy).address();
  Bfloat16* to = values_as<Bfloat16>(dx).address();
  if (!has_data_by_product() || is_dense()) {
    backward_data_.run({from, weight, to});
    return;
  }
  auto* const rows = reinterpret_cast<float*>(scope_->rows());
  const Conv2dSpec spec = part(data_parts_);
  for (std::int64_t i = 0; i < data_parts_; ++i) {
    backward_data_.run({from, weight, rows});
    sum_rows(scope_->threads(), spec, rows, to);
    from += flotilla::output_shape(spec).size();
    to += spec.input.size();
  }
}

void CpuBfloat16Conv2d::backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) {
  check_image("x", x, spec_.input, source_);
  check_image("dy", dy, output_shape(), destination_);
  check_weights(spec_, weight_size(), dw.weight.size(), dw.bias.size());
  const Bfloat16* source = values_as<Bfloat16>(x).address();
  const Bfloat16* gradient = values_as<Bfloat16>(dy).address();
  if (spec_.bias) {
    backward_weights_.run({source, gradient, dw.weight.address(), dw.bias.address()});
    return;
  }
  if (!has_weights_by_product() || is_dense()) {
    backward_weights_.run({source, gradient, dw.weight.address()});
    return;
  }
  auto* const rows = reinterpret_cast<Bfloat16*>(scope_->rows());
  const Conv2dSpec spec = part(weight_parts_);
  for (std::int64_t i = 0; i < weight_parts_; ++i) {
    gather_rows(scope_->threads(), spec, source, rows);
    (i == 0 ? backward_weights_ : add_weights_).run({rows, gradient, dw.weight.address()});
    source += spec.input.size();
    gradient += flotilla::output_shape(spec).size();
  }
}

void CpuBfloat16Conv2d::weight_from_plain(std::span<const float> plain, std::span<float> stored) const {
  check_weight_copy(plain_size(spec_), weight_size(), plain.size(), stored.size());
  copy_weight(*scope_, plain_weight(spec_), plain, weight_, stored);
}

void CpuBfloat16Conv2d::weight_to_plain(std::span<const float> stored, std::span<float> plain) const {
  check_weight_copy(plain_size(spec_), weight_size(), plain.size(), stored.size());
  copy_weight(*scope_, weight_, stored, plain_weight(spec_), plain);
}

}  // namespace flotilla
