// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "mpi/core/scaled_wire.hpp"
#include "tests/bench/timing.hpp"

// A measurement, not a test: wires_bench [floats [rounds]]. Times of encoding with error feedback, of
// encoding a sum and of decoding, as parts of the rate at which memcpy copies the same floats, in turns on
// one core.

namespace flotilla {
namespace {

struct Way {
  const char* name;
  std::function<void()> run;
  std::vector<double> times{};
};

void measure(mpi::Wire wire, std::size_t count, int rounds) {
  std::vector<float> values(count), errors(count), copy(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i) * 0.37F);
  std::vector<std::byte> bytes(mpi::encoded_bytes(wire, count));
  const mpi::RoundingDraws draws(1, 2, 3);
  const mpi::RoundedValues rounded{values, errors, 0};
  std::vector<Way> ways = {
      {"memcpy", [&] { std::memcpy(copy.data(), values.data(), count * sizeof(float)); }},
      {"encode, nearest", [&] { mpi::encode_scaled(wire, rounded, {}, bytes.data()); }},
      {"encode, stochastic", [&] { mpi::encode_scaled(wire, rounded, draws, bytes.data()); }},
      {"encode a sum", [&] { mpi::encode_scaled_sum(wire, rounded, draws, bytes.data()); }},
      {"decode", [&] { mpi::decode(wire, bytes.data(), copy); }},
      {"decode and add", [&] { mpi::decode_and_add(wire, bytes.data(), copy); }}};
  for (int round = 0; round < rounds; ++round)
    for (Way& way : ways) {
      const double begin = bench::now();
      way.run();
      way.times.push_back(bench::now() - begin);
    }
  const double memcpy_s = bench::fastest(ways.front().times);
  for (const Way& way : ways) {
    const double s = bench::fastest(way.times);
    std::printf("%-5s %9zu floats  %-19s %6.2f GB/s  %5.2f of memcpy\n", mpi::name(wire).data(), count,
                way.name, static_cast<double>(count * sizeof(float)) / s * 1e-9, memcpy_s / s);
  }
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(argc > 1 ? std::atol(argv[1]) : 1 << 22);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 40;
  for (const flotilla::mpi::Wire wire :
       {flotilla::mpi::Wire::int8, flotilla::mpi::Wire::fp8, flotilla::mpi::Wire::fp4})
    flotilla::measure(wire, count, rounds);
}
