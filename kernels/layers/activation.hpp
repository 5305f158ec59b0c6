// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace flotilla {

/// A function that is applied value by value: by itself (Elementwise), or after a linear layer in the same
/// pass where its derivative is a function of its value y = f(z).
enum class Activation { identity, relu, tanh, sigmoid, gelu, silu };
inline constexpr std::array all_activations = {Activation::identity, Activation::relu, Activation::tanh,
                                               Activation::sigmoid,  Activation::gelu, Activation::silu};
/// The words for activations in decks and lists of layers, in the order of the enumerators.
inline constexpr std::array<std::string_view, 6> activation_words = {"identity", "relu", "tanh",
                                                                     "sigmoid",  "gelu", "silu"};
constexpr std::string_view word_of(Activation f) {
  return activation_words[static_cast<std::size_t>(f)];
}
/// The activations whose derivative is a function of their value alone.
inline constexpr std::array activations_of_value = {Activation::identity, Activation::relu, Activation::tanh,
                                                    Activation::sigmoid};

constexpr bool has_slope_of_value(Activation f) {
  return std::ranges::find(activations_of_value, f) != activations_of_value.end();
}

/// Φ(z), the distribution function of the normal distribution.
template <class Math>
constexpr float normal_distribution(float z) {
  return 0.5F + 0.5F * Math::erf(0.70710678F * z);
}

/// f(z). Math provides the device's fastest tanh, sigmoid, erf and exp; exp is only called with arguments ≤
/// 0. constexpr, so that code for devices can call it; with a constant f it is that function alone. gelu is z
/// · Φ(z) (Hendrycks & Gimpel 2016), silu z · sigmoid(z).
template <class Math>
constexpr float activation_value(Activation f, float z) {
  switch (f) {
    case Activation::identity: return z;
    case Activation::relu: return z < 0.0F ? 0.0F : z;  // NaN stays NaN
    case Activation::tanh: return Math::tanh(z);
    case Activation::sigmoid: return Math::sigmoid(z);
    case Activation::gelu: return z * normal_distribution<Math>(z);
    case Activation::silu: return z * Math::sigmoid(z);
  }
  return z;
}

/// f'(z) from y = f(z), where has_slope_of_value(f).
constexpr float activation_slope(Activation f, float y) {
  switch (f) {
    case Activation::relu: return y > 0.0F ? 1.0F : 0.0F;
    case Activation::tanh: return 1.0F - y * y;
    case Activation::sigmoid: return y * (1.0F - y);
    default: return 1.0F;
  }
}

/// f'(z) from z and y = f(z).
template <class Math>
constexpr float activation_slope(Activation f, float z, float y) {
  if (f == Activation::gelu) return normal_distribution<Math>(z) + 0.39894228F * z * Math::exp(-0.5F * z * z);
  if (f == Activation::silu) {
    const float s = Math::sigmoid(z);
    return s + y * (1.0F - s);
  }
  return activation_slope(f, y);
}

}  // namespace flotilla
