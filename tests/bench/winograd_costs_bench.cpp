// SPDX-License-Identifier: Apache-2.0
// The costs by which kernels/cpu/winograd.cpp chooses between Winograd's algorithm and direct convolutions:
// times both for many shapes, fits the costs of each pass by least squares of relative errors, and prints
// them as the table of that file, with the shapes for which they choose the slower algorithm by more than 5
// %. ONEDNN_MAX_CPU_ISA=AVX2 gives the row of 8 lanes. Run: winograd_costs_bench [threads [rounds]]
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/bench/convolutions.hpp"

namespace flotilla {
namespace {

constexpr std::size_t unknowns = 3;
using Terms = std::array<double, unknowns>;

struct Measured {
  Conv2dSpec spec;
  Terms terms{};  // what the costs multiply: tiles x in x out, tiles x (in + out), in x out
  double direct_s = 0.0;
  double winograd_s = 0.0;
  double work() const { return static_cast<double>(flops(spec)) / 2; }
};

Terms terms_of(const Conv2dSpec& spec) {
  const Shape output = output_shape(spec);
  const auto tiles = static_cast<double>(output[0] * ((output[2] + 3) / 4) * ((output[3] + 3) / 4));
  const auto in = static_cast<double>(spec.input[1]);
  const auto out = static_cast<double>(output[1]);
  return {tiles * in * out, tiles * (in + out), in * out};
}

/// The costs that minimise the sum of squares of predicted ÷ measured − 1: Gauss' elimination of the normal
/// equations.
Terms fitted(const std::vector<Measured>& all) {
  std::array<std::array<double, unknowns + 1>, unknowns> m{};
  for (const Measured& one : all) {
    // The time in direct multiplications: the ratio of the times, times those of the direct algorithm.
    const double wanted = one.winograd_s / one.direct_s * one.work();
    for (std::size_t i = 0; i < unknowns; ++i) {
      for (std::size_t j = 0; j < unknowns; ++j) m[i][j] += one.terms[i] / wanted * one.terms[j] / wanted;
      m[i][unknowns] += one.terms[i] / wanted;
    }
  }
  for (std::size_t i = 0; i < unknowns; ++i) {
    for (std::size_t row = 0; row < unknowns; ++row) {
      if (row == i) continue;
      const double factor = m[row][i] / m[i][i];
      for (std::size_t j = i; j <= unknowns; ++j) m[row][j] -= factor * m[i][j];
    }
  }
  Terms costs{};
  for (std::size_t i = 0; i < unknowns; ++i) costs[i] = m[i][unknowns] / m[i][i];
  return costs;
}

Measured measured(Device& direct, Device& winograd, const Conv2dSpec& spec, std::size_t pass, int rounds) {
  bench::Convolution slow(direct, spec);
  bench::Convolution fast(winograd, spec);
  slow.run(pass);
  fast.run(pass);
  std::vector<double> slow_s;
  std::vector<double> fast_s;
  for (int round = 0; round < rounds; ++round) {
    slow_s.push_back(bench::timed([&] { slow.run(pass); }));
    fast_s.push_back(bench::timed([&] { fast.run(pass); }));
  }
  return {spec, terms_of(spec), bench::fastest(slow_s), bench::fastest(fast_s)};
}

double predicted(const Measured& one, const Terms& costs) {
  double time = 0.0;
  for (std::size_t i = 0; i < unknowns; ++i) time += one.terms[i] * costs[i];
  return time / one.work();
}

void report(const char* pass, const std::vector<Measured>& all) {
  const Terms costs = fitted(all);
  std::printf("    {.product = %.2f, .pixels = %.0f, .weights = %.0f},  // %s\n", costs[0], costs[1],
              costs[2], pass);
  double best = 0.0;
  double chosen = 0.0;
  double always_direct = 0.0;
  for (const Measured& one : all) {
    const double ratio = one.winograd_s / one.direct_s;
    const double guess = predicted(one, costs);
    const double taken = guess < 1.0 ? ratio : 1.0;
    best += std::log(std::min(ratio, 1.0));
    chosen += std::log(taken);
    always_direct += 1.0;
    if (taken > 1.05 * std::min(ratio, 1.0))
      std::printf("//   %s -> %ld: ratio %.2f, predicted %.2f\n", one.spec.input.text().c_str(),
                  static_cast<long>(one.spec.out_channels), ratio, guess);
  }
  std::printf("// %s: %zu shapes, time ÷ direct: %.3f as chosen, %.3f as if known (geometric means)\n", pass,
              all.size(), std::exp(chosen / always_direct), std::exp(best / always_direct));
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  using namespace flotilla;
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const auto direct = make_device({.kind = "cpu", .threads = number(1, 1)});
  const auto winograd =
      make_device({.kind = "cpu", .threads = number(1, 1), .winograd = WinogradUse::wherever_possible});
  std::printf("// %s\n", direct->info().description.c_str());
  const std::array names{"forward", "backward_data", "backward_weights"};
  for (std::size_t pass = 0; pass < names.size(); ++pass) {
    std::vector<Measured> all;
    for (const std::int64_t batch : {1, 4, 16}) {
      for (const auto& [channels, side] : {std::pair{16, 32},
                                           {32, 28},
                                           {64, 8},
                                           {64, 14},
                                           {64, 28},
                                           {64, 56},
                                           {128, 7},
                                           {128, 14},
                                           {128, 28},
                                           {256, 7},
                                           {256, 14},
                                           {512, 4},
                                           {512, 7},
                                           {512, 14}}) {
        for (const std::int64_t out : {std::int64_t{channels}, std::int64_t{64}}) {
          if (out == 64 && channels == 64) continue;
          const Conv2dSpec spec{
              .input = {batch, channels, side, side}, .out_channels = out, .kernel = 3, .padding = 1};
          all.push_back(measured(*direct, *winograd, spec, pass, number(2, 5)));
        }
      }
    }
    report(names[pass], all);
  }
}
