// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/device_loops/device_loops.hpp"
#include "kernels/device_loops/launch.hpp"

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
struct CastRows {
  RowsSpec rows;
  const From* from = nullptr;
  To* to = nullptr;
  CastSpec spec;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t column = i % rows.to;
    float value = column < rows.from ? spec.factor * from[i / rows.to * rows.from + column].value() : 0.0F;
    if (spec.add) value += to[i].value();
    to[i] = To::of(value);
  }
  friend bool operator==(const CastRows&, const CastRows&) = default;
};

template <class Space, class From, class To>
void cast_rows(const Space& space, const RowsSpec& rows, const From* from, To* to, const CastSpec& spec) {
  for_each(space, "cast rows", rows.rows * rows.to, CastRows<From, To>{rows, from, to, spec});
}

/// Calls body with the width of packs that `channels` channels of an image in the making are written in.
template <class T, class Body>
void with_written_width(std::int64_t channels, const Body& body) {
  if (channels % full_pack<T> == 0) return body(Width<full_pack<T>>{});
  with_width<4>(channels, body);
}

/// One lane per pixel and pack of output channels, so that planes are read side by side.
template <class From, class To, int V>
struct ToNhwc {
  std::int64_t planes = 0;  ///< C
  std::int64_t pixels = 0;  ///< H·W
  std::int64_t packs = 0;   ///< Packs of a pixel of the output.
  const From* from = nullptr;
  To* to = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t pixel = i / packs % pixels;
    const std::int64_t image = i / packs / pixels;
    Floats<V> values{};
    for (int v = 0; v < V; ++v) {
      const std::int64_t channel = i % packs * V + v;
      if (channel < planes) values[v] = from[(image * planes + channel) * pixels + pixel].value();
    }
    store<V>(values, to, i * V);
  }
  friend bool operator==(const ToNhwc&, const ToNhwc&) = default;
};

template <class Space, class From, class To>
void to_nhwc(const Space& space, const Shape& shape, std::int64_t channels, const From* from, To* to) {
  with_written_width<To>(channels, [&]<int V>(Width<V>) {
    const std::int64_t pixels = shape[2] * shape[3];
    for_each(space, "to NHWC", shape[0] * pixels * channels / V,
             ToNhwc<From, To, V>{shape[1], pixels, channels / V, from, to});
  });
}

template <class From, class To>
struct FromNhwc {
  std::int64_t planes = 0;
  std::int64_t pixels = 0;
  std::int64_t channels = 0;  ///< Channels of the input, those behind the planes included.
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

template <class To, int V>
struct FromBytes {
  std::int64_t planes = 0;
  std::int64_t packs = 0;
  const std::uint8_t* from = nullptr;
  To* to = nullptr;
  float factor[4];
  float offset[4];

  /// By comparisons: an index that is not known beforehand would put the array into memory.
  KOKKOS_INLINE_FUNCTION static float pick(const float (&of)[4], std::int64_t channel) {
    const float low = channel == 0 ? of[0] : of[1];
    const float high = channel == 2 ? of[2] : of[3];
    return channel < 2 ? low : high;
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    Floats<V> values{};
    for (int v = 0; v < V; ++v) {
      const std::int64_t channel = i % packs * V + v;
      if (channel >= planes) continue;
      const auto byte = static_cast<float>(from[i / packs * planes + channel]);
      values[v] = std::fma(byte, pick(factor, channel), pick(offset, channel));
    }
    store<V>(values, to, i * V);
  }
  friend bool operator==(const FromBytes&, const FromBytes&) = default;
};

template <class Space, class To>
void from_bytes(const Space& space, const Shape& shape, std::int64_t channels, const std::uint8_t* from,
                const ByteScaling& scaling, To* to) {
  const std::array<float, 4>& factor = scaling.factor;
  const std::array<float, 4>& offset = scaling.offset;
  with_written_width<To>(channels, [&]<int V>(Width<V>) {
    for_each(space, "images from bytes", shape[0] * shape[2] * shape[3] * channels / V,
             FromBytes<To, V>{shape[1],
                              channels / V,
                              from,
                              to,
                              {factor[0], factor[1], factor[2], factor[3]},
                              {offset[0], offset[1], offset[2], offset[3]}});
  });
}

}  // namespace flotilla::loops
