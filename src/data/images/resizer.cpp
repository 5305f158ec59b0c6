// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/resizer.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/processor/required_features.hpp"

namespace flotilla {

namespace {

/// Interpolates between the centres of the two nearest pixels; at the borders the border pixel alone counts.
void weigh(AxisWeights<float>::Taps& taps, std::span<float> weights, double centre, double /*scale*/,
           std::int64_t source) {
  const double at = std::clamp(centre - 0.5, 0.0, static_cast<double>(source - 1));
  const double below = std::floor(at);
  taps.first = static_cast<std::int32_t>(below);
  taps.count = taps.first + 1 < source ? 2 : 1;
  weights[0] = static_cast<float>(1.0 - (at - below));
  weights[1] = static_cast<float>(at - below);
}

/// A triangle around the centre, its weights normalized and rounded as PIL does (Resample.c,
/// precompute_coeffs, normalize_coeffs_8bpc).
void weigh(AxisWeights<std::int32_t>::Taps& taps, std::span<std::int32_t> weights, double centre,
           double scale, std::int64_t source) {
  const double support = std::max(1.0, scale);
  const double narrowing = 1.0 / support;
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(centre - support + 0.5));
  const auto end = std::min(source, static_cast<std::int64_t>(centre + support + 0.5));
  const auto height = [&](std::int64_t pixel) {
    return std::max(0.0, 1.0 - std::abs((static_cast<double>(pixel) - centre + 0.5) * narrowing));
  };
  double sum = 0.0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) sum += height(pixel);

  std::size_t k = 0;
  for (std::int64_t pixel = first; pixel < end; ++pixel) {
    weights[k++] = static_cast<std::int32_t>(0.5 + height(pixel) / sum * (1 << weight_bits));
  }
  taps.first = static_cast<std::int32_t>(first);
  taps.count = static_cast<std::int32_t>(k);
}

std::size_t room_for(const AxisWeights<float>& /*axis*/, double /*scale*/) {
  return 2;
}
std::size_t room_for(const AxisWeights<std::int32_t>& /*axis*/, double scale) {
  return static_cast<std::size_t>(std::ceil(std::max(1.0, scale))) * 2 + 1;
}

}  // namespace

template <class Weight>
void AxisWeights<Weight>::prepare(const AxisSpec& spec) {
  require(spec.source > 0 && spec.count > 0 && spec.begin >= 0 && spec.begin + spec.count <= spec.target &&
              std::max(spec.source, spec.target) <= std::numeric_limits<std::int32_t>::max(),
          "cannot resize ", spec.source, " pixels to ", spec.target, " and take ", spec.count, " from ",
          spec.begin);
  const double scale = static_cast<double>(spec.source) / static_cast<double>(spec.target);
  const auto count = static_cast<std::size_t>(spec.count);
  stride_ = room_for(*this, scale);
  taps_.resize(count);
  weights_.assign(count * stride_, Weight{});
  widest_ = 0;
  std::int64_t end = 0;
  first_needed_ = spec.source;
  for (std::size_t i = 0; i < count; ++i) {
    const double centre = (static_cast<double>(spec.begin) + static_cast<double>(i) + 0.5) * scale;
    const std::size_t to = spec.mirrored ? count - 1 - i : i;
    weigh(taps_[to], std::span(weights_).subspan(to * stride_, stride_), centre, scale, spec.source);
    first_needed_ = std::min<std::int64_t>(first_needed_, taps_[to].first);
    widest_ = std::max(widest_, static_cast<std::size_t>(taps_[to].count));
    end = std::max<std::int64_t>(end, taps_[to].first + taps_[to].count);
  }
  needed_ = end - first_needed_;
}

template class AxisWeights<float>;
template class AxisWeights<std::int32_t>;

namespace {

static_assert(std::endian::native == std::endian::little, "red is taken as the lowest byte of a pixel");

/// Rows resized side by side; later, pixels of one row. As many as a register has: of longer vectors GCC
/// moves the elements one by one, and the whole input took 2.4 times the time (AVX2, Sapphire Rapids).
constexpr std::size_t lanes = required_feature::avx512f ? 16 : 8;
static_assert(lanes <= RowSource::max_rows);
constexpr std::size_t colours = 3;

using Ints [[gnu::vector_size(lanes * sizeof(std::int32_t))]] = std::int32_t;
using Floats [[gnu::vector_size(lanes * sizeof(float))]] = float;

/// Numbers of 32 bits are moved as these.
using Four [[gnu::vector_size(16)]] = std::int32_t;

template <class Vector>
Vector load(const void* from) {
  Vector result;
  std::memcpy(&result, from, sizeof(result));
  return result;
}

/// The columns of rows a, b, c, d.
std::array<Four, 4> transposed(const Four& a, const Four& b, const Four& c, const Four& d) {
  const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  return {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
          __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
          __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
          __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
}

/// The columns of rows a, b, c, d in each 16 bytes of the vectors, of which there are two or four.
template <class Vector>
std::array<Vector, 4> transposed_quarters(const Vector& a, const Vector& b, const Vector& c,
                                          const Vector& d) {
  constexpr bool four = sizeof(Vector) == 4 * sizeof(Four);
  const auto low_pairs = [](const Vector& u, const Vector& v) {
    if constexpr (four)
      return __builtin_shufflevector(u, v, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    else
      return __builtin_shufflevector(u, v, 0, 8, 1, 9, 4, 12, 5, 13);
  };
  const auto high_pairs = [](const Vector& u, const Vector& v) {
    if constexpr (four)
      return __builtin_shufflevector(u, v, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
    else
      return __builtin_shufflevector(u, v, 2, 10, 3, 11, 6, 14, 7, 15);
  };
  const auto low_halves = [](const Vector& u, const Vector& v) {
    if constexpr (four)
      return __builtin_shufflevector(u, v, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
    else
      return __builtin_shufflevector(u, v, 0, 1, 8, 9, 4, 5, 12, 13);
  };
  const auto high_halves = [](const Vector& u, const Vector& v) {
    if constexpr (four)
      return __builtin_shufflevector(u, v, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
    else
      return __builtin_shufflevector(u, v, 2, 3, 10, 11, 6, 7, 14, 15);
  };
  const Vector ab_low = low_pairs(a, b);
  const Vector cd_low = low_pairs(c, d);
  const Vector ab_high = high_pairs(a, b);
  const Vector cd_high = high_pairs(c, d);
  return {low_halves(ab_low, cd_low), high_halves(ab_low, cd_low), low_halves(ab_high, cd_high),
          high_halves(ab_high, cd_high)};
}

/// Splits `pixels` into their colours, without the fourth byte. Cheaper than widening bytes.
std::array<Ints, colours> parted(const Ints& pixels) {
  return {pixels & 255, (pixels >> 8) & 255, pixels >> 16};
}

/// Two taps in float; nothing is rounded.
struct FloatArithmetic {
  using Value = float;
  using Values = Floats;
  static constexpr std::size_t planes = colours;  ///< Planes of 32-bit numbers between the passes.
  static constexpr float start = 0.0F;
  static constexpr bool rounds_to_bytes = false;
  static std::array<Floats, colours> widen(const Ints& pixels) {
    const auto [red, green, blue] = parted(pixels);
    return {__builtin_convertvector(red, Floats), __builtin_convertvector(green, Floats),
            __builtin_convertvector(blue, Floats)};
  }
  static Values finish(const Values& sum) { return sum; }
  static Floats to_float(const Values& values) { return values; }
  static void store(const std::array<Values, colours>& values, Pixel* to, std::size_t plane) {
    for (std::size_t c = 0; c < colours; ++c) std::memcpy(to + c * plane, &values[c], sizeof(Values));
  }
  static std::array<Values, colours> stored(const Pixel* from, std::size_t plane) {
    return {load<Values>(from), load<Values>(from + plane), load<Values>(from + 2 * plane)};
  }
};

/// Fixed point, rounded to 8 bits after each pass. The weights are positive and add up to 1, so that no sum
/// leaves 0 … 255.
struct FixedArithmetic {
  using Value = std::int32_t;
  using Values = Ints;
  static constexpr std::size_t planes = 1;
  static constexpr std::int32_t start = 1 << (weight_bits - 1);
  static constexpr bool rounds_to_bytes = true;
  static std::array<Values, colours> widen(const Ints& pixels) { return parted(pixels); }
  static Values finish(const Values& sum) { return sum >> weight_bits; }
  static Floats to_float(const Values& values) { return __builtin_convertvector(values, Floats); }
  static void store(const std::array<Values, colours>& values, Pixel* to, std::size_t /*plane*/) {
    const Ints pixels = values[0] | values[1] << 8 | values[2] << 16;
    std::memcpy(to, &pixels, sizeof(pixels));
  }
  static std::array<Values, colours> stored(const Pixel* from, std::size_t /*plane*/) {
    return parted(load<Ints>(from));
  }
};

/// The destination of resized pixels, up to `lanes` of them at a time: three planes of floats, scaled.
struct FloatPlanes {
  const ByteScaling& scaling;
  std::span<float> to;

  template <class Arithmetic>
  void put(std::size_t pixel, std::size_t count,
           const std::array<typename Arithmetic::Values, colours>& values) const {
    float* const first = to.data() + pixel;
    for (std::size_t c = 0; c < colours; ++c) {
      const Floats scaled = Arithmetic::to_float(values[c]) * scaling.factor[c] + scaling.offset[c];
      if (count >= lanes) {  // A copy of constant size is one instruction.
        std::memcpy(first + c * (to.size() / colours), &scaled, sizeof(scaled));
      } else {
        std::memcpy(first + c * (to.size() / colours), &scaled, count * sizeof(float));
      }
    }
  }
};

/// Writes pixels as bytes R, G, B, not scaled.
struct BytePixels {
  std::span<std::uint8_t> to;

  template <class Arithmetic>
  void put(std::size_t pixel, std::size_t count, const std::array<Ints, colours>& values) const {
    const Ints pixels = values[0] | values[1] << 8 | values[2] << 16;
    std::uint8_t* const first = to.data() + colours * pixel;
    if (count >= lanes) return put_all(pixels, first);
    std::array<std::uint8_t, colours * lanes> all;  // not zeroed: written before it is read
    put_all(pixels, all.data());
    std::memcpy(first, all.data(), colours * count);
  }

 private:
  /// Stores the pixels without their fourth byte.
  static void put_all(const Ints& pixels, std::uint8_t* first) {
    using FourPixels [[gnu::vector_size(16)]] = std::uint8_t;
    for (std::size_t quarter = 0; quarter < lanes / 4; ++quarter) {
      const auto four = load<FourPixels>(reinterpret_cast<const Pixel*>(&pixels) + 4 * quarter);
      const FourPixels three =
          __builtin_shufflevector(four, four, 0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
      std::memcpy(first + 4 * colours * quarter, &three, 4 * colours);
    }
  }
};

/// Calls `body` with the number of taps as a constant, so that its loop over them is unrolled: half of the
/// time at two or three taps. More than that takes the loop (0).
template <class Body>
void with_constant(std::size_t taps, const Body& body) {
  switch (taps) {
    case 1: return body(std::integral_constant<std::size_t, 1>());
    case 2: return body(std::integral_constant<std::size_t, 2>());
    case 3: return body(std::integral_constant<std::size_t, 3>());
    case 4: return body(std::integral_constant<std::size_t, 4>());
    case 5: return body(std::integral_constant<std::size_t, 5>());
    default: return body(std::integral_constant<std::size_t, 0>());
  }
}

template <class Arithmetic>
class SeparableResizer final : public Resizer {
  using Value = typename Arithmetic::Value;
  using Values = typename Arithmetic::Values;
  static constexpr std::size_t planes = Arithmetic::planes;

 public:
  Box prepare(const AxisSpec& x, const AxisSpec& y) override {
    require(!y.mirrored, "rows come from top to bottom");
    x_.prepare(x);
    y_.prepare(y);
    const Box needed{x_.first_needed(), y_.first_needed(), x_.needed(), y_.needed()};
    width_ = static_cast<std::size_t>(x.count);
    // A whole number of vectors; values past the last pixel are computed and ignored.
    plane_ = (width_ + lanes - 1) / lanes * lanes;
    // The rows of one output, and those that come with its last one.
    ring_ = y_.widest() + lanes;
    // Outputs with fewer taps than others have weights of 0 there and may read past the last pixel.
    side_by_side_.resize((static_cast<std::size_t>(needed.width) + x_.widest() + 3) * lanes);
    rows_.resize(ring_ * planes * plane_);
    taps_.reserve(y_.widest());
    return needed;
  }

  void run(RowSource& rows, const ByteScaling& scaling, std::span<float> to) override {
    resize(rows, FloatPlanes{scaling, to});
  }
  void run(RowSource& rows, std::span<std::uint8_t> to) override {
    if constexpr (Arithmetic::rounds_to_bytes) {
      resize(rows, BytePixels{to});
    } else {
      throw InternalError("this filter does not round to bytes");
    }
  }

 private:
  template <class Output>
  void resize(RowSource& rows, const Output& output) {
    require(output.to.size() == colours * width_ * static_cast<std::size_t>(y_.size()),
            "a resized image has other values");
    std::int64_t read = 0;
    std::array<const Pixel*, lanes> next{};
    for (std::int64_t y = 0; y < y_.size(); ++y) {
      const auto& taps = y_.taps(y);
      const std::int64_t first = taps.first - y_.first_needed();
      while (read < first + taps.count) {
        const auto count = static_cast<std::size_t>(std::min<std::int64_t>(lanes, y_.needed() - read));
        rows.next(std::span(next).first(count));
        // The last group may be smaller: its last row again, in slots that no output reads.
        std::fill(next.begin() + static_cast<std::ptrdiff_t>(count), next.end(), next[count - 1]);
        mix(next);
        with_constant(x_.widest(), [&](auto constant) { along_rows<constant>(read); });
        read += static_cast<std::int64_t>(count);
      }
      taps_.clear();
      for (std::int64_t k = 0; k < taps.count; ++k) taps_.push_back(row(first + k));
      with_constant(static_cast<std::size_t>(taps.count),
                    [&](auto constant) { down_columns<constant>(y, output); });
    }
  }

  Pixel* row(std::int64_t index) {
    return rows_.data() + static_cast<std::size_t>(index) % ring_ * planes * plane_;
  }

  /// Puts the rows side by side, pixel by pixel, without the pixels' fourth byte.
  void mix(const std::array<const Pixel*, lanes>& from) {
    const auto width = static_cast<std::size_t>(x_.needed());
    Pixel* const to = side_by_side_.data();
    const std::size_t whole = width / 4 * 4;
    for (std::size_t x = 0; x < whole; x += 4) {
      for (std::size_t r = 0; r < lanes; r += 4) {
        const auto four = [&](std::size_t i) { return load<Four>(from[r + i] + x) & 0xFFFFFF; };
        const auto columns = transposed(four(0), four(1), four(2), four(3));
        for (std::size_t i = 0; i < 4; ++i) {
          std::memcpy(to + (x + i) * lanes + r, &columns[i], sizeof(Four));
        }
      }
    }
    for (std::size_t x = whole; x < width; ++x) {
      for (std::size_t r = 0; r < lanes; ++r) to[x * lanes + r] = from[r][x] & 0xFFFFFF;
    }
  }

  /// Pixel x of the output of all rows of a group.
  template <std::size_t constant>
  std::array<Values, colours> resized(std::size_t x) const {
    const std::size_t taps = constant > 0 ? constant : x_.widest();
    const auto output = static_cast<std::int64_t>(std::min(x, width_ - 1));
    const auto first = static_cast<std::size_t>(x_.taps(output).first - x_.first_needed());
    const Pixel* const from = side_by_side_.data() + first * lanes;
    return weighted(taps, x_.weights(output),
                    [&](std::size_t k) { return Arithmetic::widen(load<Ints>(from + k * lanes)); });
  }

  /// Σ_k weights[k] · values(k), colour by colour.
  template <class Taps>
  static std::array<Values, colours> weighted(std::size_t taps, const Value* weights, const Taps& values) {
    std::array<Values, colours> sums;
    sums.fill(Values{} + Arithmetic::start);
    for (std::size_t k = 0; k < taps; ++k) {
      const std::array<Values, colours> tap = values(k);
      for (std::size_t c = 0; c < colours; ++c) sums[c] += tap[c] * weights[k];
    }
    for (Values& sum : sums) sum = Arithmetic::finish(sum);
    return sums;
  }

  /// Resizes a group of rows in one sweep, and turns it back into rows.
  template <std::size_t constant>
  void along_rows(std::int64_t index) {
    std::array<Pixel*, lanes> to{};
    for (std::size_t r = 0; r < lanes; ++r) to[r] = row(index + static_cast<std::int64_t>(r));
    alignas(64) std::array<Pixel, planes * 4 * lanes> pixels;  // (planes, 4 pixels, rows)
    for (std::size_t x = 0; x < plane_; x += 4) {
      for (std::size_t i = 0; i < 4; ++i) {
        Arithmetic::store(resized<constant>(x + i), pixels.data() + i * lanes, 4 * lanes);
      }
      for (std::size_t p = 0; p < planes; ++p) {
        const auto pixel = [&](std::size_t i) { return load<Ints>(pixels.data() + (p * 4 + i) * lanes); };
        const auto four = transposed_quarters(pixel(0), pixel(1), pixel(2), pixel(3));
        for (std::size_t r = 0; r < lanes; ++r) {
          std::memcpy(to[r] + p * plane_ + x, reinterpret_cast<const Pixel*>(&four[r % 4]) + r / 4 * 4,
                      4 * sizeof(Pixel));
        }
      }
    }
  }

  /// One row of the output.
  template <std::size_t constant, class Output>
  void down_columns(std::int64_t y, const Output& output) const {
    const std::size_t taps = constant > 0 ? constant : taps_.size();
    const Value* const weights = y_.weights(y);
    const std::size_t first = static_cast<std::size_t>(y) * width_;
    for (std::size_t x = 0; x < width_; x += lanes) {
      const auto sums =
          weighted(taps, weights, [&](std::size_t k) { return Arithmetic::stored(taps_[k] + x, plane_); });
      output.template put<Arithmetic>(first + x, width_ - x, sums);
    }
  }

  AxisWeights<Value> x_;
  AxisWeights<Value> y_;
  std::size_t width_ = 0;            ///< Width of the output in pixels.
  std::size_t plane_ = 0;            ///< Numbers of one plane of a row of the output, with padding.
  std::size_t ring_ = 0;             ///< Rows in rows_: source row j lies in slot j modulo ring_.
  std::vector<Pixel> side_by_side_;  ///< (source width, lanes)
  std::vector<Pixel> rows_;          ///< Rows resized along x: (ring_, planes, plane_), pixels or floats.
  std::vector<const Pixel*> taps_;   ///< Rows of one output.
};

}  // namespace

bool rounds_to_bytes(ResizeFilter filter) {
  return filter == ResizeFilter::antialias;
}

std::unique_ptr<Resizer> make_resizer(ResizeFilter filter) {
  if (filter == ResizeFilter::bilinear) return std::make_unique<SeparableResizer<FloatArithmetic>>();
  return std::make_unique<SeparableResizer<FixedArithmetic>>();
}

}  // namespace flotilla
