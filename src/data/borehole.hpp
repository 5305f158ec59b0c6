// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace flotilla {

/// An input of the borehole function and its range.
struct BoreholeInput {
  const char* name;
  const char* unit;
  double low;
  double high;
};

/// Radius of the borehole and of influence, transmissivity and potentiometric head of the upper and of the
/// lower aquifer, length and hydraulic conductivity of the borehole, with the ranges of Morris, Mitchell &
/// Ylvisaker, Technometrics 35 (1993), 243.
inline constexpr std::array<BoreholeInput, 8> borehole_inputs = {{{"rw", "m", 0.05, 0.15},
                                                                  {"r", "m", 100.0, 50000.0},
                                                                  {"Tu", "m²/yr", 63070.0, 115600.0},
                                                                  {"Hu", "m", 990.0, 1110.0},
                                                                  {"Tl", "m²/yr", 63.1, 116.0},
                                                                  {"Hl", "m", 700.0, 820.0},
                                                                  {"L", "m", 1120.0, 1680.0},
                                                                  {"Kw", "m/yr", 9855.0, 12045.0}}};

/// The flow of water through a borehole that joins two aquifers, m³/yr (Harper & Gupta,
/// Sensitivity/uncertainty analysis of a borehole scenario, ONWI-516, 1983): 2π Tu (Hu − Hl) / (ln(r/rw) (1 +
/// 2 L Tu / (ln(r/rw) rw² Kw) + Tu / Tl)).
/// @param x in the order of borehole_inputs
double borehole_flow(std::span<const double, 8> x);

/// Writes the inputs of sample i, uniform in their ranges, and returns its flow, that of the inputs as
/// floats: a pure function of (seed, i).
float borehole_sample(std::uint64_t seed, std::int64_t i, std::span<float, 8> inputs);

}  // namespace flotilla
