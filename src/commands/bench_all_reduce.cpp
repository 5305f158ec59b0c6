// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench_all_reduce.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/bench_all_reduce.hpp"
#include "mpi/core/host_lines.hpp"
#include "src/commands/bench_device_all_reduce.hpp"
#include "src/commands/output_files.hpp"
#include "src/files/atomic_file.hpp"
#include "src/job/failure.hpp"
#include "src/observe/print.hpp"

namespace flotilla {

namespace {

/// The algorithm and on how many communicators at a time.
std::string way_of(const mpi::AllReduceBenchRow& row) {
  return row.communicators > 1 ? cat(row.algorithm, " x ", row.communicators) : row.algorithm;
}

/// "fastest in float32: mpi for 1024 to 4096 bytes, shared-memory for 8192 to 268435456 bytes". Not of
/// "memory-limit", which no run can choose.
std::string fastest_of(const std::vector<mpi::AllReduceBenchRow>& rows) {
  std::map<std::size_t, const mpi::AllReduceBenchRow*> fastest;
  for (const mpi::AllReduceBenchRow& row : rows) {
    if (row.wire != mpi::Wire::float32 || !row.correct || row.algorithm == "memory-limit") continue;
    const mpi::AllReduceBenchRow*& best = fastest[row.bytes];
    if (best == nullptr || row.time_us < best->time_us) best = &row;
  }
  std::string text = "fastest in float32:";
  for (auto first = fastest.begin(); first != fastest.end();) {
    auto next = first;
    auto last = first;
    for (; next != fastest.end() && way_of(*next->second) == way_of(*first->second); ++next) last = next;
    text += cat(first == fastest.begin() ? " " : ", ", way_of(*first->second), " for ", first->first,
                last == first ? "" : cat(" to ", last->first), " bytes");
    first = next;
  }
  return text;
}

}  // namespace

int bench_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world) {
  agree(world, [&] {
    if (world.is_root()) check_outputs({arguments.json}, {});
  });
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  bool all_correct = true;
  std::vector<mpi::AllReduceBenchRow> measured;
  if (world.is_root()) {
    print_line(cat("all-reduce of floats, sum, ", mpi::counted(world.size(), "rank"),
                   "; busbw = algbw · 2 (n − 1) / n, GB = 1e9 bytes"));
    print_line(fmt::format("{:<15}{:<10}{:>6}{:>12}{:>10}{:>14}{:>9}{:>9}{:>9}", "algorithm", "wire", "comms",
                           "bytes", "in place", "time us", "algbw", "busbw", "correct"));
  }
  const auto on_row = [&](const mpi::AllReduceBenchRow& row) {
    all_correct = all_correct && row.correct;
    if (!world.is_root()) return;
    measured.push_back(row);
    print_line(fmt::format("{:<15}{:<10}{:>6}{:>12}{:>10}{:>14.2f}{:>9.2f}{:>9.2f}{:>9}", row.algorithm,
                           name(row.wire), row.communicators, row.bytes, row.in_place ? "yes" : "no",
                           row.time_us, row.algbw_gb_s, row.busbw_gb_s, row.correct ? "yes" : "NO"));
    rows.push_back({{"ranks", world.size()},
                    {"device", arguments.device},
                    {"algorithm", row.algorithm},
                    {"wire", name(row.wire)},
                    {"communicators", row.communicators},
                    {"bytes", row.bytes},
                    {"in_place", row.in_place},
                    {"time_us", row.time_us},
                    {"algbw_gb_s", row.algbw_gb_s},
                    {"busbw_gb_s", row.busbw_gb_s},
                    {"correct", row.correct}});
  };
  const auto say = [&](const std::string& line) {
    if (world.is_root()) print_line(line);
  };
  throw_alike([&] {
    if (arguments.device != DeviceKind::cpu) return bench_device_all_reduce(arguments, world, say, on_row);
    mpi::bench_all_reduce(world,
                          {.min_bytes = arguments.min_bytes,
                           .max_bytes = arguments.max_bytes,
                           .in_place_only = arguments.in_place,
                           .ranks_per_group = arguments.ranks_per_group,
                           .communicators = arguments.communicators},
                          on_row);
  });
  agree(world, [&] {
    if (world.is_root() && !arguments.json.empty())
      write_text_file_atomically(arguments.json, rows.dump(2) + "\n");
    if (world.is_root()) print_line(fastest_of(measured));
    require(all_correct, "an all-reduce gave a wrong sum: see the rows above");
  });
  return exit_done;
}

}  // namespace flotilla
