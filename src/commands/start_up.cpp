// SPDX-License-Identifier: Apache-2.0
#include "src/commands/start_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "kernels/error.hpp"
#include "kernels/machine/processors.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/start/binding.hpp"
#include "src/files/file.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/print.hpp"
#include "src/train/beginning.hpp"
#include "src/train/checkpoint_room.hpp"
#include "src/train/machine.hpp"

namespace flotilla {

namespace {

bool steps_together(const Config& config) {
  return config.server() == nullptr || config.server()->mode == ServerMode::sync;
}

/// Over TCP a rank opens a connection to each rank of another host that it talks to: rank 0, servers and
/// ranks with half wires or run.reproducible to all of them, others to some.
void allow_connections(const mpi::Communicator& world, const std::vector<mpi::Place>& places) {
  constexpr std::int64_t other_files = 128;
  const int here = places[static_cast<std::size_t>(world.rank())].host_index;
  const std::int64_t partners =
      std::ranges::count_if(places, [here](const mpi::Place& place) { return place.host_index != here; });
  const std::int64_t limit = allow_open_files(partners + other_files);
  if (limit >= partners + other_files || !world.is_root()) return;
  print_error_line(cat("flotilla: warning: the limit on open files (ulimit -n) is ", limit,
                       " and cannot be raised further, but over TCP a rank may need ", partners,
                       " connections, and ", other_files,
                       " files: raise the hard limit of the ranks (ulimit -Hn, LimitNOFILE of slurmd)"));
}

}  // namespace

StartUp probe_machines(const Config& config, const mpi::Communicator& world,
                       const std::vector<mpi::Place>& places, mpi::Watchdog& watchdog) {
  StartUp start{.places = places, .network = {}};
  allow_connections(world, places);
  watchdog.beat("looking for run.output on all hosts", -1);
  check_shared_folder(world, start.places, config.run.output, "run.output");
  if (config.run.check_network && mpi::hosts(start.places) > 1)
    start.network = mpi::check_network(
        world, start.places, [&](int round) { watchdog.beat("measuring the network, round", -1, round); });
  return start;
}

std::optional<Staged> stage(Config& config, const mpi::Communicator& workers, const ServerLink* servers,
                            mpi::Watchdog& watchdog) {
  if (config.data.stage_to.empty()) return std::nullopt;
  const std::vector<mpi::Place> places = places_of_workers(workers, servers);
  StagedData staged = stage_data(config, workers, places, watchdog);
  config.data = std::move(staged.data);
  return staged.facts;
}

StartValues restore_or_load(const std::optional<LoadedCheckpoint>& found, RunParts& run,
                            std::vector<std::string>& warnings) {
  StartValues start;
  if (found)
    start.continuation = restore_run(*found, run);
  else
    start.loaded = load_initial_weights(run, warnings);
  start.beginning = beginning_at(found ? &*found : nullptr, start.continuation.changes, run.config);
  if (found) start.nothing_left = nothing_left(run.config, run.data.sharding, start.beginning);
  if (start.nothing_left.empty())
    start.room = checkpoint_room(run, warnings);
  else
    throw_alike(
        [&] { refuse_untrained_changes(found->path, start.nothing_left, start.continuation.differences); });
  return start;
}

std::string describe(const mpi::NetworkReport& network) {
  const mpi::NetworkSummary& summary = network.summary;
  std::string text = fmt::format("{:.3g} GB/s each way and {:.3g} µs between ",
                                 summary.median_bytes_per_s * 1e-9, summary.median_latency_us);
  text += network.pairs == 1 ? "the 2 hosts" : fmt::format("two hosts (median of {} pairs)", network.pairs);
  return text + fmt::format(", measured in {:.1f} s", network.seconds);
}

std::vector<std::string> warnings_of_binding(const Config& config, const StartUp& start,
                                             const std::vector<mpi::Place>& workers) {
  // Servers mostly wait: on hosts with workers they are not counted.
  std::map<int, int> servers;
  for (const mpi::Place& place : start.places) ++servers[place.host_index];
  for (const mpi::Place& place : workers) --servers[place.host_index];
  std::vector<mpi::Place> places = workers;
  for (mpi::Place& place : places) {
    const int here = servers[place.host_index];
    place.cores_shared_by = std::max(1, place.cores_shared_by - here);
    place.quota_shared_by = std::max(1, place.quota_shared_by - here);
  }
  return mpi::binding_warnings(
      places, {.threads = static_cast<int>(config.device.threads), .steps_together = steps_together(config)});
}

std::string describe(const mpi::Place& place) {
  const mpi::Processors processors = mpi::find_processors();
  std::string text =
      cat("rank ", place.rank, " is number ", place.local_rank, " on ", place.host, ", on core",
          processors.own.size() == 1 ? " " : "s ", mpi::text_of_ranks(processors.own));
  if (place.cores_shared_by > 1) text += cat(" shared by ", place.cores_shared_by, " ranks");
  if (!processors.sockets.empty()) text += ", socket " + mpi::text_of_ranks(processors.sockets);
  if (!processors.nodes.empty()) text += ", NUMA node " + mpi::text_of_ranks(processors.nodes);
  if (place.quota > 0.0)
    text += fmt::format(", {:.3g} cores' time allowed to {}", place.quota, processors.quota_group);
  return text;
}

}  // namespace flotilla
