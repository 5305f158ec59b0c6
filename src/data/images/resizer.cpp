// SPDX-License-Identifier: Apache-2.0
#include "src/data/images/resizer.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

static_assert(std::endian::native == std::endian::little, "red is taken as the lowest byte of a pixel");

constexpr std::size_t group = RowSource::max_rows;  // Rows that are resized side by side
constexpr std::size_t channels = sizeof(Pixel);     // The fourth costs less than leaving it out.
constexpr std::size_t lanes = group * channels;

/// Two taps in float; nothing is rounded.
struct FloatArithmetic {
  using Value = float;
  using Values [[gnu::vector_size(lanes * sizeof(Value))]] = Value;
  static constexpr float start = 0.0F;
  static Values finish(Values sum) { return sum; }
};

/// Fixed point, rounded to 8 bits after each pass. The weights are positive and add up to 1, so that no sum
/// leaves 0 … 255.
struct FixedArithmetic {
  using Value = std::int32_t;
  using Values [[gnu::vector_size(lanes * sizeof(Value))]] = Value;
  static constexpr std::int32_t start = 1 << (weight_bits - 1);
  static Values finish(Values sum) { return sum >> weight_bits; }
};

template <class Arithmetic>
class SeparableResizer final : public Resizer {
  using Value = typename Arithmetic::Value;
  using Values = typename Arithmetic::Values;

 public:
  Box prepare(const AxisSpec& x, const AxisSpec& y) override {
    x_.prepare(x);
    y_.prepare(y);
    const Box needed{x_.first_needed(), y_.first_needed(), x_.needed(), y_.needed()};
    width_ = static_cast<std::size_t>(x.count);
    // A whole number of vectors; what lies behind the last pixel is computed and ignored.
    row_values_ = (width_ + group - 1) / group * lanes;
    // The rows of one output, and those that come with its last one.
    ring_ = static_cast<std::size_t>(y_.widest()) + group;
    side_by_side_.resize(static_cast<std::size_t>(needed.width) * group);
    values_.resize(side_by_side_.size() * channels);
    rows_.resize(ring_ * row_values_);
    line_.resize(row_values_);
    taps_.resize(static_cast<std::size_t>(y_.widest()));
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
        along_rows(next, read);
        read += static_cast<std::int64_t>(count);
      }
      for (std::int64_t k = 0; k < taps.count; ++k) taps_[static_cast<std::size_t>(k)] = row(first + k);
      down_columns(y_.weights(y));
      write_planes(scaling, to.subspan(static_cast<std::size_t>(y) * width_));
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

  /// Resizes a group of rows in one sweep: pixel x of all of them is one vector.
  void along_rows(const std::array<const Pixel*, group>& from, std::int64_t index) {
    mix(from);
    std::array<Value*, group> to{};
    for (std::size_t r = 0; r < group; ++r) to[r] = row(index + static_cast<std::int64_t>(r));
    for (std::size_t x = 0; x < width_; ++x) {
      const auto& taps = x_.taps(static_cast<std::int64_t>(x));
      const Value* from_pixel =
          values_.data() + static_cast<std::size_t>(taps.first - x_.first_needed()) * lanes;
      Values sum = Values{} + Arithmetic::start;
      for (const Value weight : x_.weights(static_cast<std::int64_t>(x))) {
        sum += load(from_pixel) * weight;
        from_pixel += lanes;
      }
      const Values pixels = Arithmetic::finish(sum);
      for (std::size_t r = 0; r < group; ++r) {
        std::memcpy(to[r] + x * channels, reinterpret_cast<const Value*>(&pixels) + r * channels,
                    channels * sizeof(Value));
      }
    }
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

  void down_columns(std::span<const Value> weights) {
    for (std::size_t at = 0; at < row_values_; at += lanes) {
      Values sum = Values{} + Arithmetic::start;
      for (std::size_t k = 0; k < weights.size(); ++k) sum += load(taps_[k] + at) * weights[k];
      const Values values = Arithmetic::finish(sum);
      std::memcpy(line_.data() + at, &values, sizeof(values));
    }
  }

  void write_planes(const ColourScaling& scaling, std::span<float> to) const {
    const std::size_t plane = width_ * static_cast<std::size_t>(y_.size());
    const Value* const line = line_.data();
    for (std::size_t c = 0; c < 3; ++c) {
      float* const values = to.data() + c * plane;
      const float factor = scaling.factor[c];
      const float offset = scaling.offset[c];
      for (std::size_t x = 0; x < width_; ++x) {
        values[x] = static_cast<float>(line[x * channels + c]) * factor + offset;
      }
    }
  }

  AxisWeights<Value> x_;
  AxisWeights<Value> y_;
  std::size_t width_ = 0;            ///< Of the output, pixels.
  std::size_t row_values_ = 0;       ///< Of a row of the output, values with padding.
  std::size_t ring_ = 0;             ///< Rows in rows_: source row j lies in slot j modulo ring_.
  std::vector<Pixel> side_by_side_;  ///< (source width, group)
  std::vector<Value> values_;        ///< The same, widened: (source width, group, channels).
  std::vector<Value> rows_;          ///< Rows resized along x: (ring_, row_values_).
  std::vector<const Value*> taps_;
  std::vector<Value> line_;  ///< One row of the output.
};

}  // namespace

std::unique_ptr<Resizer> make_resizer(ResizeFilter filter) {
  if (filter == ResizeFilter::bilinear) return std::make_unique<SeparableResizer<FloatArithmetic>>();
  return std::make_unique<SeparableResizer<FixedArithmetic>>();
}

}  // namespace flotilla
