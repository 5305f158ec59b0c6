// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/gpu/loops/launch.hpp"
#include "kernels/gpu/loops/plan_scope.hpp"
#include "kernels/image_checks.hpp"

/// Pooling on (N,H,W,C): one lane per pixel and pack of channels. The backward pass gathers over the windows
/// that a pixel lies in, so that nothing is added atomically.
namespace flotilla::loops {

/// Sizes in 32 bits: divisions by 64-bit numbers are slow on a GPU.
struct PoolSizes {
  std::uint32_t height = 0, width = 0;  ///< Size of the input.
  std::uint32_t down = 0, across = 0;   ///< Windows of an image.
  std::uint32_t kernel_h = 0, kernel_w = 0;
  std::uint32_t stride = 1, padding = 0;
  std::uint32_t packs = 0;  ///< Packs of a pixel.
  Pooling kind = Pooling::max;

  /// The factor that turns a window's sum into its average.
  KOKKOS_INLINE_FUNCTION float share(int rows, int columns) const {
    const bool whole = kind == Pooling::average_including_padding;
    return 1.0F / static_cast<float>(whole ? static_cast<int>(kernel_h * kernel_w) : rows * columns);
  }
  friend bool operator==(const PoolSizes&, const PoolSizes&) = default;
};

inline PoolSizes pool_sizes(const Pool2dSpec& spec, int width_of_pack) {
  const auto small_number = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const bool global = spec.kind == Pooling::global_average;
  const Shape output = output_shape(spec);
  require(spec.input.size() / width_of_pack <= 0x7FFFFFFF && output.size() / width_of_pack <= 0x7FFFFFFF,
          "pooling of ", spec.input.text(), " is too large for 32-bit indices");
  PoolSizes sizes;
  sizes.height = small_number(spec.input[2]);
  sizes.width = small_number(spec.input[3]);
  sizes.down = small_number(output[2]);
  sizes.across = small_number(output[3]);
  sizes.kernel_h = small_number(global ? spec.input[2] : spec.kernel);
  sizes.kernel_w = small_number(global ? spec.input[3] : spec.kernel);
  sizes.stride = small_number(global ? 1 : spec.stride);
  sizes.padding = small_number(global ? 0 : spec.padding);
  sizes.packs = small_number(spec.input[1] / width_of_pack);
  sizes.kind = spec.kind;
  return sizes;
}

/// The part of a range that lies in 0 … size − 1.
struct Inside {
  int first, last;
};
KOKKOS_INLINE_FUNCTION Inside inside(int begin, std::uint32_t count, std::uint32_t size) {
  const int end = begin + static_cast<int>(count);
  return {begin < 0 ? 0 : begin, end > static_cast<int>(size) ? static_cast<int>(size) : end};
}

template <class T, int V>
struct PoolForward {
  PoolSizes sizes;
  const T* x = nullptr;
  T* y = nullptr;
  std::uint8_t* chosen = nullptr;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Pixel at = pixel_of(static_cast<std::uint32_t>(i), sizes.down, sizes.across, sizes.packs);
    const int top = static_cast<int>(at.row * sizes.stride) - static_cast<int>(sizes.padding);
    const int left = static_cast<int>(at.column * sizes.stride) - static_cast<int>(sizes.padding);
    const Inside rows = inside(top, sizes.kernel_h, sizes.height);
    const Inside columns = inside(left, sizes.kernel_w, sizes.width);
    Floats<V> result{};
    Pack<std::uint8_t, V> place{};
    for (int row = rows.first; row < rows.last; ++row) {
      const std::int64_t line = std::int64_t{at.image} * sizes.height + row;
      for (int column = columns.first; column < columns.last; ++column) {
        const Floats<V> values =
            load_floats<V>(x, ((line * sizes.width + column) * sizes.packs + at.pack) * V);
        if (sizes.kind != Pooling::max) {
          for (int v = 0; v < V; ++v) result[v] += values[v];
          continue;
        }
        const bool first = row == rows.first && column == columns.first;
        const auto here =
            static_cast<std::uint8_t>((row - top) * static_cast<int>(sizes.kernel_w) + column - left);
        for (int v = 0; v < V; ++v) {
          // NaN is larger than all; of equal values the first one stays.
          const bool not_a_number = values[v] != values[v] && result[v] == result[v];
          if (!first && !(values[v] > result[v]) && !not_a_number) continue;
          result[v] = values[v];
          place.values[v] = here;
        }
      }
    }
    if (sizes.kind == Pooling::max) {
      *reinterpret_cast<Pack<std::uint8_t, V>*>(chosen + i * V) = place;
    } else {
      const float share = sizes.share(rows.last - rows.first, columns.last - columns.first);
      for (int v = 0; v < V; ++v) result[v] *= share;
    }
    store<V>(result, y, i * V);
  }
  friend bool operator==(const PoolForward&, const PoolForward&) = default;
};

template <class T, int V>
struct PoolBackward {
  PoolSizes sizes;
  const std::uint8_t* chosen = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;

  /// The windows of `count` that hold `position`.
  KOKKOS_INLINE_FUNCTION Inside windows_of(std::uint32_t position, std::uint32_t kernel,
                                           std::uint32_t count) const {
    const std::uint32_t padded = position + sizes.padding;
    const std::uint32_t first = padded < kernel ? 0 : (padded - kernel) / sizes.stride + 1;
    const std::uint32_t last = padded / sizes.stride + 1;
    return {static_cast<int>(first), static_cast<int>(last < count ? last : count)};
  }
  KOKKOS_INLINE_FUNCTION int extent(int window, std::uint32_t kernel, std::uint32_t size) const {
    const Inside range =
        inside(window * static_cast<int>(sizes.stride) - static_cast<int>(sizes.padding), kernel, size);
    return range.last - range.first;
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Pixel at = pixel_of(static_cast<std::uint32_t>(i), sizes.height, sizes.width, sizes.packs);
    const Inside rows = windows_of(at.row, sizes.kernel_h, sizes.down);
    const Inside columns = windows_of(at.column, sizes.kernel_w, sizes.across);
    Floats<V> sums{};
    for (int row = rows.first; row < rows.last; ++row) {
      for (int column = columns.first; column < columns.last; ++column) {
        const std::int64_t line = std::int64_t{at.image} * sizes.down + row;
        const std::int64_t from = ((line * sizes.across + column) * sizes.packs + at.pack) * V;
        const Floats<V> values = load_floats<V>(dy, from);
        if (sizes.kind != Pooling::max) {
          const float share = sizes.share(extent(row, sizes.kernel_h, sizes.height),
                                          extent(column, sizes.kernel_w, sizes.width));
          for (int v = 0; v < V; ++v) sums[v] += share * values[v];
          continue;
        }
        const std::uint32_t down = at.row + sizes.padding - static_cast<std::uint32_t>(row) * sizes.stride;
        const std::uint32_t right =
            at.column + sizes.padding - static_cast<std::uint32_t>(column) * sizes.stride;
        const auto here = static_cast<std::uint8_t>(down * sizes.kernel_w + right);
        const Pack<std::uint8_t, V> places = load<V>(chosen, from);
        for (int v = 0; v < V; ++v) {
          if (places.values[v] == here) sums[v] += values[v];
        }
      }
    }
    store<V>(sums, dx, i * V);
  }
  friend bool operator==(const PoolBackward&, const PoolBackward&) = default;
};

/// Max pooling over windows of 3 × 3, whose reads do not wait for one another. Bits are PoolForward's.
template <class T, int V>
struct MaxPool3Forward {
  PoolSizes sizes;
  const T* x = nullptr;
  T* y = nullptr;
  std::uint8_t* chosen = nullptr;

  /// Outside the image values are smaller than all others. Indices above and left of it wrap around.
  KOKKOS_INLINE_FUNCTION Pack<T, V> read(const Pixel& at, std::uint32_t row, std::uint32_t column) const {
    if (row < sizes.height && column < sizes.width) {
      const std::uint32_t line = at.image * sizes.height + row;
      return load<V>(x, std::int64_t{(line * sizes.width + column) * sizes.packs + at.pack} * V);
    }
    Pack<T, V> none;
    for (int v = 0; v < V; ++v) none.values[v] = T::of(-std::numeric_limits<float>::infinity());
    return none;
  }
  /// NaN is larger than all; of equal values the first one stays.
  KOKKOS_INLINE_FUNCTION static void choose(const Pack<T, V>& values, std::uint32_t here, Floats<V>& largest,
                                            Pack<std::uint8_t, V>& places) {
    for (int v = 0; v < V; ++v) {
      const float value = values.values[v].value();
      if (largest[v] == largest[v] && !(value <= largest[v])) {
        largest[v] = value;
        places.values[v] = static_cast<std::uint8_t>(here);
      }
    }
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Pixel at = pixel_of(static_cast<std::uint32_t>(i), sizes.down, sizes.across, sizes.packs);
    const std::uint32_t top = at.row * sizes.stride - sizes.padding;
    const std::uint32_t left = at.column * sizes.stride - sizes.padding;
    const std::uint32_t first = (top < sizes.height ? 0 : 3) + (left < sizes.width ? 0 : 1);
    Floats<V> largest;
    Pack<std::uint8_t, V> places;
    for (int v = 0; v < V; ++v) {
      largest[v] = -std::numeric_limits<float>::infinity();
      places.values[v] = static_cast<std::uint8_t>(first);
    }
    for (std::uint32_t down = 0; down < 3; ++down) {
      const Pack<T, V> one = read(at, top + down, left);
      const Pack<T, V> two = read(at, top + down, left + 1);
      const Pack<T, V> three = read(at, top + down, left + 2);
      choose(one, 3 * down, largest, places);
      choose(two, 3 * down + 1, largest, places);
      choose(three, 3 * down + 2, largest, places);
    }
    store<V>(places, chosen, i * V);
    store<V>(largest, y, i * V);
  }
  friend bool operator==(const MaxPool3Forward&, const MaxPool3Forward&) = default;
};

/// Max pooling over windows of 3 × 3 with stride 2, backward: one lane per block of 2 × 2 pixels of the
/// padded image, which lies in at most 2 × 2 windows, and per pack. Bits are PoolBackward's.
template <class T, int V>
struct MaxPool3Backward {
  PoolSizes sizes;
  std::uint32_t rows = 0, columns = 0;  ///< Blocks of an image.
  const std::uint8_t* chosen = nullptr;
  const T* dy = nullptr;
  const T* more_dy = nullptr;  ///< Null: none.
  T* dx = nullptr;

  struct Window {
    Pack<T, V> dy;
    Pack<std::uint8_t, V> places;
  };
  /// A window that is not there has chosen no pixel.
  KOKKOS_INLINE_FUNCTION Window read(const Pixel& at, std::uint32_t row, std::uint32_t column) const {
    Window window{};
    if (row < sizes.down && column < sizes.across) {
      const std::uint32_t line = at.image * sizes.down + row;
      const std::int64_t i = std::int64_t{(line * sizes.across + column) * sizes.packs + at.pack} * V;
      window = {load<V>(dy, i), load<V>(chosen, i)};
      if (more_dy == nullptr) return window;
      const Pack<T, V> more = load<V>(more_dy, i);
      for (int v = 0; v < V; ++v)
        window.dy.values[v] = T::of(window.dy.values[v].value() + more.values[v].value());
      return window;
    }
    for (int v = 0; v < V; ++v) window.places.values[v] = 255;
    return window;
  }
  KOKKOS_INLINE_FUNCTION static void add(const Window& window, int place, Floats<V>& sums) {
    for (int v = 0; v < V; ++v) {
      if (window.places.values[v] == place) sums[v] += window.dy.values[v].value();
    }
  }
  KOKKOS_INLINE_FUNCTION void write(const Pixel& at, std::uint32_t row, std::uint32_t column,
                                    const Floats<V>& sums) const {
    if (row >= sizes.height || column >= sizes.width) return;
    const std::uint32_t line = at.image * sizes.height + row;
    store<V>(sums, dx, std::int64_t{(line * sizes.width + column) * sizes.packs + at.pack} * V);
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    const Pixel at = pixel_of(static_cast<std::uint32_t>(i), rows, columns, sizes.packs);
    const Window above_left = read(at, at.row - 1, at.column - 1);
    const Window above = read(at, at.row - 1, at.column);
    const Window left = read(at, at.row, at.column - 1);
    const Window here = read(at, at.row, at.column);
    const std::uint32_t row = 2 * at.row - sizes.padding;
    const std::uint32_t column = 2 * at.column - sizes.padding;
    Floats<V> corner{};
    add(above_left, 8, corner);
    add(above, 6, corner);
    add(left, 2, corner);
    add(here, 0, corner);
    write(at, row, column, corner);
    Floats<V> upper{};
    add(above, 7, upper);
    add(here, 1, upper);
    write(at, row, column + 1, upper);
    Floats<V> lower{};
    add(left, 5, lower);
    add(here, 3, lower);
    write(at, row + 1, column, lower);
    Floats<V> middle{};
    add(here, 4, middle);
    write(at, row + 1, column + 1, middle);
  }
  friend bool operator==(const MaxPool3Backward&, const MaxPool3Backward&) = default;
};

template <class Space, class T>
class Pool2dPlan : public Pool2d {
 public:
  Pool2dPlan(const PlanScope<Space>& scope, const Pool2dSpec& spec) : scope_(scope), spec_(spec) {
    check_spec(spec);
    check_32_bit_size("pooling on a GPU", spec.input);
    if (spec.kind != Pooling::max) return;
    require(spec.kernel <= 16, "max pooling keeps places in a byte: a kernel of at most 16, got ",
            spec.kernel);
    chosen_ = scope.memory.allocate((static_cast<std::size_t>(output_shape().size()) + 3) / 4);
  }
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override {
    check_nhwc("x", x, spec_.input);
    check_nhwc("y", y, output_shape());
    with_width<full_pack<T>>(spec_.input[1], [&]<int V>(Width<V>) {
      const auto pool = [&](const auto& functor) {
        for_each(scope_.space, "pooling", output_shape().size() / V, functor);
      };
      const PoolSizes sizes = pool_sizes(spec_, V);
      if (spec_.kind == Pooling::max && spec_.kernel == 3)
        pool(MaxPool3Forward<T, V>{sizes, elements<T>(x), elements<T>(y), chosen()});
      else
        pool(PoolForward<T, V>{sizes, elements<T>(x), elements<T>(y), chosen()});
    });
  }
  bool adds_gradients() const override {
    return spec_.kind == Pooling::max && spec_.kernel == 3 && spec_.stride == 2;
  }
  void backward_sum(const Tensor& dy, const Tensor& more_dy, Tensor& dx) override {
    if (!adds_gradients()) return Pool2d::backward_sum(dy, more_dy, dx);
    check_nhwc("the second dy", more_dy, output_shape());
    backward_of_blocks(dy, &more_dy, dx);
  }
  void backward(const Tensor& dy, Tensor& dx) override {
    if (adds_gradients()) return backward_of_blocks(dy, nullptr, dx);
    check_nhwc("dy", dy, output_shape());
    check_nhwc("dx", dx, spec_.input);
    with_width<full_pack<T>>(spec_.input[1], [&]<int V>(Width<V>) {
      for_each(scope_.space, "pooling backward", spec_.input.size() / V,
               PoolBackward<T, V>{pool_sizes(spec_, V), chosen(), elements<T>(dy), elements<T>(dx)});
    });
  }

 private:
  void backward_of_blocks(const Tensor& dy, const Tensor* more_dy, Tensor& dx) {
    check_nhwc("dy", dy, output_shape());
    check_nhwc("dx", dx, spec_.input);
    const auto blocks = [this](int axis) {
      return static_cast<std::uint32_t>((spec_.input[axis] + spec_.padding + 1) / 2);
    };
    with_width<full_pack<T>>(spec_.input[1], [&]<int V>(Width<V>) {
      const MaxPool3Backward<T, V> functor{pool_sizes(spec_, V),
                                           blocks(2),
                                           blocks(3),
                                           chosen(),
                                           elements<T>(dy),
                                           more_dy == nullptr ? nullptr : elements<T>(*more_dy),
                                           elements<T>(dx)};
      for_each(scope_.space, "pooling backward",
               spec_.input[0] * functor.rows * functor.columns * functor.sizes.packs, functor);
    });
  }
  std::uint8_t* chosen() { return reinterpret_cast<std::uint8_t*>(chosen_.span().address()); }

  PlanScope<Space> scope_;
  Pool2dSpec spec_;
  Storage chosen_;  // with max, a byte for each value of y: where in its window the largest value is
};

}  // namespace flotilla::loops
