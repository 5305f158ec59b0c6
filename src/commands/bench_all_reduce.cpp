// SPDX-License-Identifier: Apache-2.0
#include "src/commands/bench.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "mpi/all_reduce/bench_all_reduce.hpp"
#include "mpi/all_reduce/nccl/nccl_all_reduce.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/core/topology.hpp"
#include "src/commands/output_files.hpp"
#include "src/commands/subcommand.hpp"
#include "src/job/devices.hpp"
#include "src/job/failure.hpp"
#include "src/observe/print.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"

namespace flotilla {

namespace {

/// The algorithm and on how many communicators at a time.
std::string way_of(const mpi::AllReduceBenchRow& row) {
  return row.communicators > 1 ? cat(row.algorithm, " x ", row.communicators) : row.algorithm;
}

/// The fastest rows in float32 by their bytes; without "memory-limit", which no run can choose.
using FastestRows = std::map<std::size_t, const mpi::AllReduceBenchRow*>;

FastestRows fastest_of(const std::vector<mpi::AllReduceBenchRow>& rows) {
  FastestRows fastest;
  for (const mpi::AllReduceBenchRow& row : rows) {
    if (row.wire != mpi::Wire::float32 || !row.correct || row.algorithm == "memory-limit") continue;
    const mpi::AllReduceBenchRow*& best = fastest[row.bytes];
    if (best == nullptr || row.time_us < best->time_us) best = &row;
  }
  return fastest;
}

/// "fastest in float32: mpi for 1024 to 4096 bytes, shared-memory for 8192 to 268435456 bytes"
std::string rows_text(const FastestRows& fastest) {
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

class DeviceBench {
 public:
  DeviceBench(const BenchAllReduceArguments& arguments, const mpi::Communicator& world, Device& device,
              const std::vector<mpi::Place>& places, std::string no_nccl)
      : arguments_(arguments),
        world_(world),
        host_(world.split_by_host()),
        device_(device),
        places_(places),
        no_nccl_(std::move(no_nccl)) {}

  struct Way {
    ReductionConfig reduction;
    int communicators = 1;
  };
  /// All algorithms that are possible on these hosts.
  std::vector<Way> candidates() const {
    mpi::AllReduceSite site = mpi::find_site(places_, arguments_.ranks_per_group);
    site.no_nccl = no_nccl_;
    std::vector<Way> all;
    for (const mpi::AllReduceKind* const kind : possible_all_reduces(site))
      for (const mpi::Wire wire : {mpi::Wire::float32, mpi::Wire::float16, mpi::Wire::bfloat16}) {
        if (!kind->carries(wire)) break;
        for (const int lanes : std::set{1, arguments_.communicators}) {
          if (lanes > 1 && !kind->several_communicators) continue;
          all.push_back({.reduction = {.all_reduce = word_of(*kind),
                                       .ranks_per_group = arguments_.ranks_per_group,
                                       .wire = wire},
                         .communicators = lanes});
        }
      }
    return all;
  }

  void measure(const Way& way, const std::function<void(const mpi::AllReduceBenchRow&)>& on_row) const {
    const auto lanes = static_cast<std::size_t>(way.communicators);
    AllReducePlan plan = plan_all_reduce(way.reduction, {.places = places_,
                                                         .shares_memory = device_.info().shares_host_memory,
                                                         .buckets = lanes,
                                                         .no_nccl = no_nccl_,
                                                         .communicators = way.communicators});
    const std::size_t most = arguments_.max_bytes / sizeof(float);
    fit_to_shared_memory(plan, false, most, world_);
    const ReducedArray array(device_, most, plan, host_);
    const DeviceSpan<float> all = array.values();
    Reduction reduction = make_reduction(plan, world_, host_, device_, array, std::span(&all, 1));
    mpi::BenchLanes together(std::move(reduction.lanes));
    std::vector<float> host(all.size());
    for (std::size_t bytes = arguments_.min_bytes; bytes <= arguments_.max_bytes; bytes *= 2) {
      const DeviceSpan<float> data = all.subspan(0, bytes / sizeof(float));
      const std::span<float> copy = std::span(host).first(data.size());
      mpi::Candidate candidate;
      candidate.row = {.algorithm = std::string(word(way.reduction.all_reduce)),
                       .wire = plan.wire,
                       .communicators = plan.communicators,
                       .bytes = data.size() * sizeof(float)};
      candidate.fill = [&] {
        mpi::fill_for_exact_sum(copy, plan.wire, world_.rank(), world_.size());
        device_.memory().upload(copy, data);
        device_.queue().synchronize();
      };
      candidate.is_exact = [&] {
        device_.memory().download(data, copy);
        return mpi::is_exact_sum(copy, plan.wire, world_.size());
      };
      candidate.clear = [&] {
        device_.flat().fill(data, 0.0F);
        device_.queue().synchronize();
      };
      candidate.sum = [&] { together.sum(data); };
      candidate.wait = [&] {
        together.wait();
        device_.queue().synchronize();
      };
      mpi::take_turns(world_, std::span(&candidate, 1), 0);
      on_row(candidate.row);
    }
  }

 private:
  const BenchAllReduceArguments& arguments_;
  const mpi::Communicator& world_;
  mpi::Communicator host_;
  Device& device_;
  const std::vector<mpi::Place>& places_;
  std::string no_nccl_;
};

/// Collective. Measures the all-reduces of training in the memory of arguments.device: NCCL's where each rank
/// has a GPU of its own, and those through host memory. One after another, with all sizes each. `say` gets
/// lines about the set-up.
void bench_device_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world,
                             const std::function<void(const std::string&)>& say,
                             const std::function<void(const mpi::AllReduceBenchRow&)>& on_row) {
  DeviceConfig config;
  config.kind = arguments.device;
  config.share = true;
  const std::vector<mpi::Place> places = mpi::find_topology(world);
  const mpi::GpuBinding gpus = find_gpus(config, world, places);
  const auto own = static_cast<std::size_t>(world.rank());
  std::unique_ptr<Device> device;
  agree(world, places, [&] {
    device = make_device(config, Precision::float32, places[own], gpus.ordinal(world.rank()), false);
  });
  say("device " + device->info().description);
  const std::string no_nccl = flotilla::no_nccl(gpus, mpi::has_nccl());
  if (!no_nccl.empty()) say(cat("without NCCL: \"nccl\" ", no_nccl));
  const DeviceBench bench(arguments, world, *device, places, no_nccl);
  for (const auto& way : bench.candidates()) bench.measure(way, on_row);
}

}  // namespace

int bench_all_reduce(const BenchAllReduceArguments& arguments, const mpi::Communicator& world) {
  agree(world, [&] {
    if (world.is_root()) check_outputs({arguments.json}, {});
  });
  const int hosts = mpi::hosts(mpi::find_topology(world));
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
                    {"hosts", hosts},
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
    if (world.is_root()) hand_over(rows.dump(2), arguments.json, arguments.text);
    const std::string wrong = all_correct ? "" : "an all-reduce gave a wrong sum: see the rows above";
    if (const FastestRows fastest = fastest_of(measured); world.is_root()) {
      print_line(rows_text(fastest));
      std::vector<Figure> figures;
      if (!fastest.empty())
        figures = {{"bytes", static_cast<double>(fastest.rbegin()->first)},
                   {"time_us", fastest.rbegin()->second->time_us},
                   {"busbw_gb_s", fastest.rbegin()->second->busbw_gb_s}};
      print_figures(figures, wrong);
    }
    require(all_correct, wrong);
  });
  return exit_done;
}

std::size_t bytes_from_text(const std::string& text) {
  static const std::map<std::string_view, std::int64_t> units = {
      {"", 1}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (rest.ends_with("iB") && rest.size() == 3) rest.remove_suffix(2);
  if (rest.ends_with("B")) rest.remove_suffix(1);
  const auto unit = units.find(rest);
  if (error != std::errc{} || unit == units.end() || number <= 0 ||
      number > std::numeric_limits<std::int64_t>::max() / unit->second) {
    throw UserError(cat("a size must be a positive number of bytes, as 512, 1K or 64M, got ", text));
  }
  return static_cast<std::size_t>(number * unit->second);
}

Subcommand bench_all_reduce_command() {
  return SubcommandOf<BenchAllReduceArguments>{
      .name = "bench all-reduce",
      .help = "Every all-reduce there is, over message sizes",
      .add_options =
          [](CLI::App& command, BenchAllReduceArguments& arguments, Positionals& /*positionals*/) {
            CLI::Option* bytes = command.add_option_function<std::string>(
                "--bytes",
                [&arguments](const std::string& text) {
                  arguments.min_bytes = arguments.max_bytes = bytes_from_text(text);
                },
                "One size: 512, 1K, 64M");
            command
                .add_option_function<std::string>(
                    "--min",
                    [&arguments](const std::string& text) { arguments.min_bytes = bytes_from_text(text); },
                    "Smallest size (1K)")
                ->excludes(bytes);
            command
                .add_option_function<std::string>(
                    "--max",
                    [&arguments](const std::string& text) { arguments.max_bytes = bytes_from_text(text); },
                    "Largest size (256M)")
                ->excludes(bytes);
            command.add_flag("--in-place", arguments.in_place, "Reduce in place only");
            command
                .add_option_function<std::string>(
                    "--device",
                    [&arguments](const std::string& word) { arguments.device = choice<DeviceKind>(word); },
                    "In whose memory the data lies: cpu, cuda, reference (cpu)")
                ->check(CLI::IsMember({"cpu", "cuda", "reference"}));
            command.add_option("--ranks-per-group", arguments.ranks_per_group,
                               "Of those in groups (0: a group per host)");
            command.add_option("--communicators", arguments.communicators,
                               "Also with so many all-reduces of a part at a time (1)");
            command.add_option("--json", arguments.json, "File for the rows as JSON");
          },
      .take_positionals =
          [](BenchAllReduceArguments& arguments, Positionals& /*positionals*/) {
            if (arguments.min_bytes > arguments.max_bytes)
              throw UserError(cat("--min must not be above --max, got ", arguments.min_bytes, " and ",
                                  arguments.max_bytes));
          },
      .run_on_ranks = [](const BenchAllReduceArguments& arguments, const mpi::Communicator& world,
                         FailureHandler& /*failure*/) { return bench_all_reduce(arguments, world); },
  };
}

}  // namespace flotilla
