// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/gpu/loops/device_loops.hpp"
#include "kernels/gpu/loops/launch.hpp"

/// Casts and changes of layout: each value read and written once.
namespace flotilla::loops {

template <class From, class To>
struct Cast {
  const From* from = nullptr;
  To* to = nullptr;
  CastSpec spec;

  template <int V>
  KOKKOS_INLINE_FUNCTION void operator()(Width<V>, std::int64_t first) const {
    Floats<V> values = load_floats<V>(from, first);
    for (int v = 0; v < V; ++v) values[v] *= spec.factor;
    if (spec.add) {
      const Floats<V> before = load_floats<V>(to, first);
      for (int v = 0; v < V; ++v) values[v] += before[v];
    }
    store<V>(values, to, first);
  }
  friend bool operator==(const Cast&, const Cast&) = default;
};

template <class Space, class From, class To>
void cast(const Space& space, std::int64_t size, const From* from, To* to, const CastSpec& spec) {
  for_each_pack<4>(space, "cast", size, Cast<From, To>{from, to, spec});
}

template <class From, class To>
struct Gather {
  const std::int32_t* places = nullptr;
  const From* from = nullptr;
  To* to = nullptr;
  CastSpec spec;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    float value = places[i] < 0 ? 0.0F : spec.factor * from[places[i]].value();
    if (spec.add) value += to[i].value();
    to[i] = To::of(value);
  }
  friend bool operator==(const Gather&, const Gather&) = default;
};

/// Values of planes (N,C,H,W); a pixel's number counts those of the images before it. first() is where its
/// first channel lies.
template <class From>
struct PlaneSource {
  std::int64_t planes = 0;  ///< C
  std::int64_t pixels = 0;  ///< H·W
  const From* from = nullptr;

  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t pixel) const {
    return pixel / pixels * planes * pixels + pixel % pixels;
  }
  KOKKOS_INLINE_FUNCTION float value(std::int64_t first, std::int64_t channel) const {
    return from[first + channel * pixels].value();
  }
  friend bool operator==(const PlaneSource&, const PlaneSource&) = default;
};

/// Values of bytes (N,H,W,C), C ≤ 4.
struct ByteSource {
  std::int64_t planes = 0;
  const std::uint8_t* from = nullptr;
  float factor[4];
  float offset[4];

  /// Selects by comparisons: an index unknown at compile time would put the array into memory.
  KOKKOS_INLINE_FUNCTION static float pick(const float (&of)[4], std::int64_t channel) {
    const float low = channel == 0 ? of[0] : of[1];
    const float high = channel == 2 ? of[2] : of[3];
    return channel < 2 ? low : high;
  }
  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t pixel) const { return pixel * planes; }
  KOKKOS_INLINE_FUNCTION float value(std::int64_t first, std::int64_t channel) const {
    const auto byte = static_cast<float>(from[first + channel]);
    return std::fma(byte, pick(factor, channel), pick(offset, channel));
  }
  friend bool operator==(const ByteSource&, const ByteSource&) = default;
};

/// Calls body with the width of packs that `channels` channels of an image in the making are written in.
template <class T, class Body>
void with_written_width(std::int64_t channels, const Body& body) {
  if (channels % full_pack<T> == 0) return body(Width<full_pack<T>>{});
  with_width<4>(channels, body);
}

/// One lane per pixel and pack of output channels, so that planes are read side by side.
template <class Source, class To, int V>
struct ToNhwc {
  std::int64_t packs = 0;  ///< Packs of a pixel of the output.
  Source source;
  To* to = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t first = source.first(i / packs);
    Floats<V> values{};
    for (int v = 0; v < V; ++v) {
      const std::int64_t channel = i % packs * V + v;
      if (channel < source.planes) values[v] = source.value(first, channel);
    }
    store<V>(values, to, i * V);
  }
  friend bool operator==(const ToNhwc&, const ToNhwc&) = default;
};

/// One lane per pixel of a block, with its channels. Sizes in 32 bits: divisions by 64-bit numbers are slow.
template <class Source, class To>
struct Fold {
  std::uint32_t height = 0, width = 0;  ///< Size of the input.
  std::uint32_t rows = 0, columns = 0;  ///< Blocks of an image.
  std::uint32_t padding = 0;
  Source source;
  To* to = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Pixel at = pixel_of(static_cast<std::uint32_t>(i), rows, columns, 4);
    // Above and left of the image they wrap around to large numbers.
    const std::uint32_t row = 2 * at.row + at.pack / 2 - padding;
    const std::uint32_t column = 2 * at.column + at.pack % 2 - padding;
    Floats<folded_channels> values{};
    if (row < height && column < width) {
      const std::int64_t first = source.first((std::int64_t{at.image} * height + row) * width + column);
      for (int v = 0; v < folded_channels; ++v) {
        if (v < source.planes) values[v] = source.value(first, v);
      }
    }
    store<folded_channels>(values, to, i * folded_channels);
  }
  friend bool operator==(const Fold&, const Fold&) = default;
};

template <class Space, class Source, class To>
void to_form(const Space& space, const char* name, const Shape& shape, const ImageForm& form,
             const Source& source, To* to) {
  if (form.folded()) {
    const auto narrow = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
    for_each(space, name, form.size(shape) / folded_channels,
             Fold<Source, To>{narrow(shape[2]), narrow(shape[3]), narrow(form.rows), narrow(form.columns),
                              narrow(form.padding), source, to});
    return;
  }
  with_written_width<To>(form.channels, [&]<int V>(Width<V>) {
    for_each(space, name, form.size(shape) / V, ToNhwc<Source, To, V>{form.channels / V, source, to});
  });
}

template <class Space, class From, class To>
void to_nhwc(const Space& space, const Shape& shape, const ImageForm& form, const From* from, To* to) {
  to_form(space, "to NHWC", shape, form, PlaneSource<From>{shape[1], shape[2] * shape[3], from}, to);
}

template <class Space, class To>
void from_bytes(const Space& space, const Shape& shape, const ImageForm& form, const std::uint8_t* from,
                const ByteScaling& scaling, To* to) {
  const std::array<float, 4>& factor = scaling.factor;
  const std::array<float, 4>& offset = scaling.offset;
  const ByteSource source{shape[1],
                          from,
                          {factor[0], factor[1], factor[2], factor[3]},
                          {offset[0], offset[1], offset[2], offset[3]}};
  to_form(space, "images from bytes", shape, form, source, to);
}

template <class From, class To>
struct FromNhwc {
  std::int64_t planes = 0;
  std::int64_t pixels = 0;
  std::int64_t channels = 0;  ///< Channels of the input; those after the first `planes` are padding.
  const From* from = nullptr;
  To* to = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t pixel = i % pixels;
    const std::int64_t channel = i / pixels % planes;
    const std::int64_t image = i / pixels / planes;
    to[i] = To::of(from[(image * pixels + pixel) * channels + channel].value());
  }
  friend bool operator==(const FromNhwc&, const FromNhwc&) = default;
};

template <class Space, class From, class To>
void from_nhwc(const Space& space, const Shape& shape, std::int64_t channels, const From* from, To* to) {
  for_each(space, "from NHWC", shape.size(),
           FromNhwc<From, To>{shape[1], shape[2] * shape[3], channels, from, to});
}

}  // namespace flotilla::loops
