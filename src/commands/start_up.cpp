// SPDX-License-Identifier: Apache-2.0
#include "src/commands/start_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "kernels/machine/processors.hpp"
#include "mpi/core/host_lines.hpp"
#include "mpi/start/binding.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/files/file.hpp"
#include "src/job/failure.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/console.hpp"
#include "src/observe/print.hpp"
#include "src/train/beginning.hpp"
#include "src/train/machine.hpp"
#include "src/train/model_state.hpp"
#include "src/train/run_parts.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

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

/// The size of a checkpoint with the parts of all workers, and the models of checkpoint.per_rank.
std::int64_t bytes_of_checkpoint(RunParts& run) {
  const std::vector<CheckpointTensor> tensors =
      checkpoint_tensors(*run.model.network, run.sync.strategy->live());
  std::int64_t values = 0;
  for (const CheckpointTensor& tensor : tensors) values += tensor.shape.size();
  const std::int64_t workers = run.machine.workers.size();
  std::int64_t errors = 0;
  for (const StateArray& array : run.sync.wire_errors())
    errors += static_cast<std::int64_t>(array.values.size()) * workers;
  const bool parts = run.config.local_sgd() != nullptr && workers > 1;
  const std::int64_t files = 1 + (parts ? workers : 0) + (run.config.checkpoint.per_rank ? workers : 0);
  return (values * files + errors) * static_cast<std::int64_t>(sizeof(float));
}

/// The largest number of checkpoints that exist at the same time, while one is written.
std::int64_t max_at_once(const CheckpointConfig& checkpoint) {
  const bool best = checkpoint.best != BestMetric::none;
  const bool several = checkpoint.every > 0 || checkpoint.every_s > 0.0 || best;
  return several ? checkpoint.keep + 1 + (best ? checkpoint.keep_best : 0) : 1;
}

std::int64_t checkpoints_there(const std::string& output) {
  std::error_code error;
  const std::string folder = output + "/checkpoints";
  return fs::is_directory(folder, error) ? static_cast<std::int64_t>(checkpoints_in(folder).size()) : 0;
}

/// The folder, or the nearest one above it that is there.
std::string nearest_folder(const std::string& folder) {
  fs::path there = folder;
  std::error_code error;
  while (!fs::is_directory(there, error) && there != there.parent_path()) there = there.parent_path();
  return there.string();
}

/// Collective over the workers. Compares what the checkpoints to come take, without rows of tables, with what
/// is free where run.output lies or will lie.
/// @param warnings that the checkpoints that the deck keeps do not all fit at the same time
/// @returns on worker 0 "checkpoints  1.4 MB each, up to 3 at a time; 23 GB are free in /home/me/runs/mnist"
/// @throws AgreedFailure if not even one fits
std::string checkpoint_room(RunParts& run, std::vector<std::string>& warnings) {
  std::string line;
  agree(run.machine.workers, [&] {
    const std::int64_t each = bytes_of_checkpoint(run);
    if (!run.machine.workers.is_root()) return;
    const std::string& output = run.config.run.output;
    const std::int64_t at_once = max_at_once(run.config.checkpoint);
    const std::int64_t free = free_bytes(nearest_folder(output)).value_or(-1);
    line = cat("checkpoints  ", bytes_text(each), " each, up to ", at_once, " at a time",
               run.sync.embeddings ? ", rows of embeddings not counted" : "", "; ",
               free < 0 ? "it is not known how much is" : cat(bytes_text(free), " are"), " free in ", output);
    if (free < 0) return;
    if (free < each)
      throw UserError(cat("No space left on device for a checkpoint in run.output ", output, ": one takes ",
                          bytes_text(each), ", and ", bytes_text(free),
                          " are free; make room, or name a folder on another disk"));
    const std::int64_t more = std::max<std::int64_t>(1, at_once - checkpoints_there(output));
    if (free / more < each)
      warnings.push_back(cat("the ", more, " checkpoints of ", bytes_text(each),
                             " that checkpoint.keep = ", run.config.checkpoint.keep, " lets lie in ", output,
                             " do not fit into the ", bytes_text(free),
                             " that are free there: make room, or "
                             "keep fewer"));
  });
  return line;
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
