// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/host_batch.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// A float16 (IEEE 754 binary16) as it lies in memory.
enum class Float16 : std::uint16_t {};

/// The type of the numbers of an array on disk.
struct NumberType {
  enum class Kind { u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64 };
  Kind kind = Kind::u8;
  bool big_endian = false;  ///< The most significant byte comes first

  std::int64_t bytes() const;
  std::string text() const;  ///< "float32", "big-endian int16"
  bool is_integer() const { return kind < Kind::f16; }
  bool is_byte() const { return kind == Kind::u8; }
  friend bool operator==(const NumberType&, const NumberType&) = default;
};

/// Calls body with a number of the type, of this machine's byte order: std::uint8_t … std::int64_t, Float16,
/// float or double.
template <class Body>
decltype(auto) with_number(NumberType::Kind kind, const Body& body) {
  using Kind = NumberType::Kind;
  switch (kind) {
    case Kind::u8: return body(std::uint8_t{});
    case Kind::i8: return body(std::int8_t{});
    case Kind::u16: return body(std::uint16_t{});
    case Kind::i16: return body(std::int16_t{});
    case Kind::u32: return body(std::uint32_t{});
    case Kind::i32: return body(std::int32_t{});
    case Kind::u64: return body(std::uint64_t{});
    case Kind::i64: return body(std::int64_t{});
    case Kind::f16: return body(Float16{});
    case Kind::f32: return body(float{});
    case Kind::f64: return body(double{});
  }
  throw InternalError("a number of no type");
}

/// Reverses the bytes of each number of a big-endian array, in place.
void to_native_order(NumberType type, std::span<std::byte> numbers);

/// Numbers in this machine's byte order, as double.
void to_doubles(NumberType type, std::span<const std::byte> numbers, std::span<double> to);

/// Integers in this machine's byte order; those of 2^63 and above become negative.
void to_integers(NumberType type, std::span<const std::byte> numbers, std::span<std::int64_t> to);

/// (x − mean) / std of values: `groups` means and deviations of the inputs, each of as many values that lie
/// one after another.
struct ValueScaling {
  std::span<const double> mean;
  std::span<const double> inverse;  ///< 1 / std
};

/// Numbers in this machine's byte order, scaled. Those of up to 16 bits and float32 are computed in float,
/// the others in double. The number of values is a multiple of scaling.mean.size().
void to_floats(NumberType type, std::span<const std::byte> numbers, const ValueScaling& scaling,
               std::span<float> to);

/// Position of the first value that is infinite or NaN; −1: there is none.
std::int64_t find_not_finite(std::span<const float> values);

/// Pixels p = 0 … 255 become p · 1 / (255 std) − mean / std, in float.
struct PixelScale {
  double mean = 0.0;
  double std = 1.0;  ///< positive
};

/// A PixelScale as a product and a sum in float.
class PixelScaler {
 public:
  explicit PixelScaler(const PixelScale& scale);
  float factor() const { return factor_; }
  float offset() const { return offset_; }
  /// Writes as many values as there are pixels.
  void convert(std::span<const std::uint8_t> pixels, float* to) const;

 private:
  float factor_;
  float offset_;
};

/// Means and deviations of (x − mean) / std, one or one for each group of values; both empty: 0 and 1.
struct GivenScaling {
  std::vector<double> mean{};
  std::vector<double> std{};
};

/// Makes values of the numbers of a sample, or of its targets.
class SampleScaling {
 public:
  /// @param groups channels of an image, features or targets
  /// @param given none, 1 or `groups` means and deviations each
  SampleScaling(NumberType type, std::int64_t groups, const GivenScaling& given);
  /// Numbers p of type uint8 are scaled as pixels: (p / 255 − mean) / std.
  static SampleScaling of_pixels(std::int64_t groups, const GivenScaling& given);

  /// @param numbers in this machine's byte order
  void convert(std::span<const std::byte> numbers, std::span<float> to) const;
  /// Whether convert() copies: float32 as it is.
  bool changes_nothing() const;
  /// The scaling of each channel of a sample of bytes.
  ByteScaling bytes(std::int64_t channels) const;

 private:
  NumberType type_;
  std::vector<double> mean_;
  std::vector<double> inverse_;
  std::vector<PixelScaler> pixels_;  ///< Instead of them
};

}  // namespace flotilla
