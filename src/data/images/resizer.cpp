// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/resizer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

static_assert(std::endian::native == std::endian::little, "red is taken as the lowest byte of a pixel");

constexpr std::size_t group = RowSource::max_rows;  // Rows that are resized side by side
constexpr std::size_t channels = sizeof(Pixel);     // The fourth costs less than leaving it out.
constexpr std::size_t colours = 3;
constexpr std::size_t lanes = group * channels;

using Floats [[gnu::vector_size(lanes * sizeof(float))]] = float;

/// Two taps in float; nothing is rounded.
struct FloatArithmetic {
  using Value = float;
  using Values [[gnu::vector_size(lanes * sizeof(Value))]] = Value;
  static constexpr float start = 0.0F;
  static Values finish(Values sum) { return sum; }
  static Floats to_float(Values values) { return values; }
};

/// Fixed point, rounded to 8 bits after each pass. The weights are positive and add up to 1, so that no sum
/// leaves 0 … 255.
struct FixedArithmetic {
  using Value = std::int32_t;
  using Values [[gnu::vector_size(lanes * sizeof(Value))]] = Value;
  static constexpr std::int32_t start = 1 << (weight_bits - 1);
  static Values finish(Values sum) { return sum >> weight_bits; }
  static Floats to_float(Values values) { return __builtin_convertvector(values, Floats); }
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

 public:
  Box prepare(const AxisSpec& x, const AxisSpec& y) override {
    require(!y.mirrored, "rows come from top to bottom");
    x_.prepare(x);
    y_.prepare(y);
    const Box needed{x_.first_needed(), y_.first_needed(), x_.needed(), y_.needed()};
    width_ = static_cast<std::size_t>(x.count);
    // A whole number of vectors; what lies behind the last pixel is computed and ignored.
    plane_ = (width_ + lanes - 1) / lanes * lanes;
    row_values_ = colours * plane_;
    // The rows of one output, and those that come with its last one.
    ring_ = y_.widest() + group;
    side_by_side_.resize(static_cast<std::size_t>(needed.width) * group);
    // Outputs with fewer taps than others have weights of 0 and may look behind the last pixel.
    values_.resize((static_cast<std::size_t>(needed.width) + x_.widest()) * lanes);
    rows_.resize(ring_ * row_values_);
    taps_.reserve(y_.widest());
    return needed;
  }

  void run(RowSource& rows, const ColourScaling& scaling, std::span<float> to) override {
    require(to.size() == 3 * width_ * static_cast<std::size_t>(y_.size()),
            "a resized image has other values");
    std::int64_t read = 0;
    std::array<const Pixel*, group> next{};
    for (std::int64_t y = 0; y < y_.size(); ++y) {
      const auto& taps = y_.taps(y);
      const std::int64_t first = taps.first - y_.first_needed();
      while (read < first + taps.count) {
        const auto count = static_cast<std::size_t>(std::min<std::int64_t>(group, y_.needed() - read));
        rows.next(std::span(next).first(count));
        // The last group may be smaller: its last row again, in slots that no output reads.
        std::fill(next.begin() + static_cast<std::ptrdiff_t>(count), next.end(), next[count - 1]);
        mix(next);
        with_constant(x_.widest(), [&](auto constant) { along_rows<constant>(read); });
        read += static_cast<std::int64_t>(count);
      }
      taps_.clear();
      for (std::int64_t k = 0; k < taps.count; ++k) taps_.push_back(row(first + k));
      with_constant(static_cast<std::size_t>(taps.count), [&](auto constant) {
        down_columns<constant>(y_.weights(y), scaling, to.subspan(static_cast<std::size_t>(y) * width_));
      });
    }
  }

 private:
  Value* row(std::int64_t index) {
    return rows_.data() + static_cast<std::size_t>(index) % ring_ * row_values_;
  }

  static Values load(const Value* from) {
    Values result;
    std::memcpy(&result, from, sizeof(result));
    return result;
  }

  /// Puts the rows side by side, pixel by pixel, each value widened once for all its taps.
  void mix(const std::array<const Pixel*, group>& from) {
    const auto width = static_cast<std::size_t>(x_.needed());
    Pixel* const mixed = side_by_side_.data();
    for (std::size_t x = 0; x < width; ++x) {
      for (std::size_t r = 0; r < group; ++r) mixed[x * group + r] = from[r][x];
    }
    const auto* const bytes = reinterpret_cast<const unsigned char*>(mixed);
    Value* const values = values_.data();
    for (std::size_t i = 0; i < width * lanes; ++i) values[i] = static_cast<Value>(bytes[i]);
  }

  /// Pixel x of the output of all rows of a group: R, G, B and the fourth of one row after the other.
  template <std::size_t constant>
  Values resized(std::size_t x) const {
    const std::size_t taps = constant > 0 ? constant : x_.widest();
    const auto output = static_cast<std::int64_t>(x);
    const std::int64_t first = x_.taps(output).first - x_.first_needed();
    const Value* const from = values_.data() + first * static_cast<std::int64_t>(lanes);
    const Value* const weights = x_.weights(output);
    Values sum = Values{} + Arithmetic::start;
    for (std::size_t k = 0; k < taps; ++k) sum += load(from + k * lanes) * weights[k];
    return Arithmetic::finish(sum);
  }

  /// Resizes a group of rows in one sweep, four pixels at a time, and parts the colours.
  template <std::size_t constant>
  void along_rows(std::int64_t index) {
    std::array<Value*, group> to{};
    for (std::size_t r = 0; r < group; ++r) to[r] = row(index + static_cast<std::int64_t>(r));
    const auto store = [&](const Values& values, std::size_t at) {
      for (std::size_t r = 0; r < group; ++r) {
        std::memcpy(to[r] + at, reinterpret_cast<const Value*>(&values) + r * channels,
                    channels * sizeof(Value));
      }
    };
    for (std::size_t x = 0; x < width_; x += channels) {
      const std::size_t last = width_ - 1;
      const Values a = resized<constant>(x);
      const Values b = resized<constant>(x + 1 < last ? x + 1 : last);
      const Values c = resized<constant>(x + 2 < last ? x + 2 : last);
      const Values d = resized<constant>(x + 3 < last ? x + 3 : last);
      const Values ab = low_pairs(a, b);
      const Values cd = low_pairs(c, d);
      store(low_halves(ab, cd), x);
      store(high_halves(ab, cd), plane_ + x);
      store(low_halves(high_pairs(a, b), high_pairs(c, d)), 2 * plane_ + x);
    }
  }

  // A transposition of four pixels of four values, for each of the rows in a vector: a0 b0 a1 b1, then a0 b0
  // c0 d0.
  static Values low_pairs(const Values& a, const Values& b) {
    return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
  }
  static Values high_pairs(const Values& a, const Values& b) {
    return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
  }
  static Values low_halves(const Values& a, const Values& b) {
    return __builtin_shufflevector(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
  }
  static Values high_halves(const Values& a, const Values& b) {
    return __builtin_shufflevector(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
  }

  /// One row of the output, in its three planes.
  template <std::size_t constant>
  void down_columns(const Value* weights, const ColourScaling& scaling, std::span<float> to) const {
    const std::size_t taps = constant > 0 ? constant : taps_.size();
    const std::size_t plane = width_ * static_cast<std::size_t>(y_.size());
    for (std::size_t c = 0; c < colours; ++c) {
      for (std::size_t x = 0; x < width_; x += lanes) {
        Values sum = Values{} + Arithmetic::start;
        for (std::size_t k = 0; k < taps; ++k) sum += load(taps_[k] + c * plane_ + x) * weights[k];
        const Floats values =
            Arithmetic::to_float(Arithmetic::finish(sum)) * scaling.factor[c] + scaling.offset[c];
        if (width_ - x >= lanes) {
          std::memcpy(to.data() + c * plane + x, &values, sizeof(values));
        } else {
          std::memcpy(to.data() + c * plane + x, &values, (width_ - x) * sizeof(float));
        }
      }
    }
  }

  AxisWeights<Value> x_;
  AxisWeights<Value> y_;
  std::size_t width_ = 0;            ///< Of the output, pixels.
  std::size_t plane_ = 0;            ///< Values of one colour of a row of the output, with padding.
  std::size_t row_values_ = 0;       ///< Values of such a row.
  std::size_t ring_ = 0;             ///< Rows in rows_: source row j lies in slot j modulo ring_.
  std::vector<Pixel> side_by_side_;  ///< (source width, group)
  std::vector<Value> values_;        ///< The same, widened: (source width, group, channels).
  std::vector<Value> rows_;          ///< Rows resized along x: (ring_, colours, plane_).
  std::vector<const Value*> taps_;   ///< Rows of one output.
};

}  // namespace

std::unique_ptr<Resizer> make_resizer(ResizeFilter filter) {
  if (filter == ResizeFilter::bilinear) return std::make_unique<SeparableResizer<FloatArithmetic>>();
  return std::make_unique<SeparableResizer<FixedArithmetic>>();
}

}  // namespace flotilla
