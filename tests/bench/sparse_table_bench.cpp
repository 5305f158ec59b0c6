// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <numeric>
#include <vector>

#include "kernels/random.hpp"
#include "src/observe/reporter.hpp"
#include "src/parameter_server/rows/sparse_table.hpp"

// A measurement, not a test: sparse_table_bench [millions of rows] [width] [adam]. The ceiling is the rate at
// which random cache lines of the same memory can be read, whether it is the processor or the program that
// looks ahead.

namespace flotilla {
namespace {

constexpr std::size_t batch = 26'000;  // Rows of a CTR batch
constexpr std::size_t line_floats = 16;
constexpr int rounds = 200;

/// Measures this thread's processor time, so that other programs on the machine hardly count.
double seconds(const std::function<void()>& once) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double begin = now();
  once();
  return now() - begin;
}

/// Adds a value of each line, so that it must have come.
template <std::size_t ahead>
float read_lines(const Pages& pages, const std::vector<std::uint32_t>& lines) {
  const auto* const floats = reinterpret_cast<const float*>(pages.data());
  float sum = 0.0F;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (ahead > 0 && i + ahead < lines.size())
      __builtin_prefetch(floats + std::size_t{lines[i + ahead]} * line_floats);
    sum += floats[std::size_t{lines[i]} * line_floats];
  }
  return sum;
}

double lines_per_second(std::size_t bytes) {
  const Pages pages(bytes);
  std::fill_n(reinterpret_cast<float*>(pages.data()), bytes / sizeof(float), 1.0F);
  std::vector<std::uint32_t> lines(batch);
  Random random(1, random_data);
  float sum = 0.0F;
  std::vector<double> plain;
  std::vector<double> ahead;
  for (int round = 0; round < rounds; ++round) {
    for (auto& line : lines) line = static_cast<std::uint32_t>(random.below(bytes / 64));
    plain.push_back(seconds([&] { sum += read_lines<0>(pages, lines); }));
    for (auto& line : lines) line = static_cast<std::uint32_t>(random.below(bytes / 64));
    ahead.push_back(seconds([&] { sum += read_lines<32>(pages, lines); }));
  }
  if (sum == 0.0F) std::printf("nothing was read\n");
  return static_cast<double>(batch) / std::min(std::ranges::min(plain), std::ranges::min(ahead));
}

void show(const char* what, double rate, double limit) {
  std::printf("%-36s %7.1f million/s, %5.2f of random lines\n", what, rate * 1e-6, rate / limit);
}

void measure(std::size_t rows, std::size_t width, const UpdateRule& rule) {
  const std::size_t slots = rule_state_names(rule).size();
  const double limit = lines_per_second(rows * width * (1 + slots) * sizeof(float));
  std::printf("random cache lines: %.1f million/s\n", limit * 1e-6);
  std::vector<std::uint64_t> keys(batch);
  std::vector<float> values(batch * width, 0.001F);
  Random random(2, random_data);
  SparseTable table({.width = width, .rule = {.update = rule}});
  std::vector<double> times;
  const std::int64_t before = resident_memory_bytes();
  std::int64_t highest = before;

  std::uint64_t next = 0;
  while (table.rows() < rows) {
    for (auto& key : keys) key = next++ * 0x9E3779B97F4A7C15U;
    times.push_back(seconds([&] { table.pull(keys, values); }));
    highest = std::max(highest, resident_memory_bytes());
  }
  const double filled = std::accumulate(times.begin(), times.end(), 0.0);
  show("insert (pull of new rows)", static_cast<double>(table.rows()) / filled, limit);
  std::printf("  slowest batch of %zu: %.1f ms\n", batch, 1e3 * *std::ranges::max_element(times));

  const auto touch = [&](const std::function<void()>& use) {
    std::vector<double> taken;
    for (int round = 0; round < rounds; ++round) {
      for (auto& key : keys) key = random.below(table.rows()) * 0x9E3779B97F4A7C15U;
      taken.push_back(seconds(use));
    }
    return static_cast<double>(batch) / std::ranges::min(taken);
  };
  show("find (pull of rows that are there)", touch([&] { table.pull(keys, values); }), limit);
  show("find (without insert)", touch([&] { table.pull_without_insert(keys, values); }), limit);
  const RowGradients part{keys, values};
  std::int64_t step = 0;
  show("push", touch([&] { table.push(std::span(&part, 1), 0.01F, 1.0F, ++step); }), limit);
  const double stated = static_cast<double>(table.rows() * (width * (1 + slots) * sizeof(float) + 16));
  std::printf(
      "%zu rows of %zu + %zu slots: %.1f bytes a row in the table, highest resident %.1f; ratio to the "
      "stated %.3f\n",
      table.rows(), width, slots,
      static_cast<double>(table.memory_bytes()) / static_cast<double>(table.rows()),
      static_cast<double>(highest - before) / static_cast<double>(table.rows()),
      static_cast<double>(highest - before) / stated);
  std::printf("planned: %.1f MB, VmHWM of the program %.1f MB\n",
              static_cast<double>(planned_bytes(table.rows(), width, slots)) * 1e-6,
              static_cast<double>(peak_memory_bytes()) * 1e-6);
}

}  // namespace
}  // namespace flotilla

int main(int argc, char** argv) {
  const double millions = argc > 1 ? std::atof(argv[1]) : 10.0;
  const auto width = static_cast<std::size_t>(argc > 2 ? std::atoi(argv[2]) : 16);
  flotilla::measure(static_cast<std::size_t>(millions * 1e6), width,
                    argc > 3 ? flotilla::UpdateRule(flotilla::rules::Adam{}) : flotilla::rules::Sgd{});
  return 0;
}
