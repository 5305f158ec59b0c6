// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

/// Elementary functions that the compiler vectorises: no branches, no calls, NaN in gives NaN out.
namespace flotilla {

/// x limited to [−limit, limit]. Not std::clamp, which GCC 12 leaves scalar in simd loops.
inline float limited(float x, float limit) {
  const float above = x < -limit ? -limit : x;
  return above > limit ? limit : above;
}

/// tanh x with an absolute error below 5e-7: the rational function of degree 13/6 that Eigen and XLA use.
inline float fast_tanh(float x) {
  const float t = limited(x, 7.9F);
  const float s = t * t;
  float p = -2.76076847742355e-16F;
  p = p * s + 2.00018790482477e-13F;
  p = p * s + -8.60467152213735e-11F;
  p = p * s + 5.12229709037114e-08F;
  p = p * s + 1.48572235717979e-05F;
  p = p * s + 6.37261928875436e-04F;
  p = p * s + 4.89352455891786e-03F;
  float q = 1.19825839466702e-06F;
  q = q * s + 1.18534705686654e-04F;
  q = q * s + 2.26843463243900e-03F;
  q = q * s + 4.89352518554385e-03F;
  return t * p / q;
}

/// 1 / (1 + exp(−x)) = (1 + tanh(x / 2)) / 2, absolute error below 3e-7.
inline float fast_sigmoid(float x) {
  return 0.5F * fast_tanh(0.5F * x) + 0.5F;
}

/// exp x for x ≤ 0 with a relative error below 3e-7; below −87 the result is exp(−87). x = n ln 2 + r, |r| ≤
/// ln 2 / 2, exp r by the polynomial of Cephes' expf.
inline float fast_exp_below_0(float x) {
  const float t = x < -87.0F ? -87.0F : x;
  // Adding 1.5 · 2²³ leaves round(t / ln 2) in the low bits of the sum.
  constexpr float rounder = 12582912.0F;
  const float shifted = t * 1.44269504088896341F + rounder;
  const float n = shifted - rounder;
  const float r = (t - n * 0.693359375F) + n * 2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float exp_r = p * (r * r) + r + 1.0F;
  const float power = std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) + 127U) << 23);
  return exp_r * power;
}

/// erf x with an absolute error below 3e-7 (Abramowitz & Stegun 1964, 7.1.26).
inline float fast_erf(float x) {
  const float a = x < 0.0F ? -x : x;
  const float t = 1.0F / (1.0F + 0.3275911F * a);
  float p = 1.061405429F;
  p = p * t + -1.453152027F;
  p = p * t + 1.421413741F;
  p = p * t + -0.284496736F;
  p = p * t + 0.254829592F;
  const float y = 1.0F - p * t * fast_exp_below_0(-a * a);
  return x < 0.0F ? -y : y;
}

}  // namespace flotilla
