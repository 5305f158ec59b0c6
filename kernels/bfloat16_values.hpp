// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/half_rounding.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

/// A value of bfloat16 as it lies in memory. Not a number, so that no code computes with its bits.
enum class Bfloat16 : std::uint16_t {};

// The two kinds of values that a host's tensors hold, for loops that are templates over them; the compiler
// vectorises both.
inline float to_float(float value) {
  return value;
}
inline float to_float(Bfloat16 value) {
  return half::float_of_bfloat16(static_cast<std::uint16_t>(value));
}
/// `value` as a T, rounded to the nearest, ties to even.
template <class T>
T from_float(float value);
template <>
inline float from_float(float value) {
  return value;
}
template <>
inline Bfloat16 from_float(float value) {
  return Bfloat16{half::bfloat16_of(value)};
}

/// A tensor's values, for devices whose tensors hold such: T is float or Bfloat16. Not for networks, which do
/// not know what a device's tensors hold.
template <class T>
DeviceSpan<T> values_as(Tensor& tensor) {
  return {reinterpret_cast<T*>(tensor.span().address()), static_cast<std::size_t>(tensor.shape().size())};
}
template <class T>
DeviceSpan<const T> values_as(const Tensor& tensor) {
  return {reinterpret_cast<const T*>(tensor.span().address()),
          static_cast<std::size_t>(tensor.shape().size())};
}

/// Calls body with a value of the type that tensors of this precision hold, which must not be float16:
/// with_values(precision, [&]<class T>(T) { … }).
template <class Body>
decltype(auto) with_values(Precision precision, const Body& body) {
  if (precision == Precision::bfloat16) return body(Bfloat16{});
  return body(0.0F);
}

}  // namespace flotilla
