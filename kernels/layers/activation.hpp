// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

namespace flotilla {

/// The function after a linear layer, applied in the same pass, element by element. Its derivative is a
/// function of its value y = f(z).
enum class Activation { identity, relu, tanh, sigmoid };
inline constexpr std::array all_activations = {Activation::identity, Activation::relu, Activation::tanh,
                                               Activation::sigmoid};

/// f(z). Math has tanh(float) and sigmoid(float), as a device computes them best. constexpr, so that code for
/// devices can call it; with a constant f it is that function alone.
template <class Math>
constexpr float activation_value(Activation f, float z) {
  switch (f) {
    case Activation::identity: return z;
    case Activation::relu: return z < 0.0F ? 0.0F : z;  // NaN stays NaN
    case Activation::tanh: return Math::tanh(z);
    case Activation::sigmoid: return Math::sigmoid(z);
  }
  return z;
}

/// f'(z) from y = f(z).
constexpr float activation_slope(Activation f, float y) {
  switch (f) {
    case Activation::identity: return 1.0F;
    case Activation::relu: return y > 0.0F ? 1.0F : 0.0F;
    case Activation::tanh: return 1.0F - y * y;
    case Activation::sigmoid: return y * (1.0F - y);
  }
  return 1.0F;
}

}  // namespace flotilla
