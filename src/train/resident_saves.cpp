// SPDX-License-Identifier: Apache-2.0
#include "src/train/resident_saves.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "mpi/core/topology.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/files/checksum.hpp"
#include "src/job/failure.hpp"
#include "src/observe/console.hpp"
#include "src/train/model_state.hpp"
#include "src/train/run_folder.hpp"

namespace flotilla {

namespace {

/// While one state is being written, the one before is there, and the file system takes some room for itself.
constexpr std::int64_t states_at_once = 2;
constexpr std::int64_t spare_bytes = std::int64_t{8} << 20;

/// What worker 0 decides about the states of all hosts.
struct Decision {
  const ResidentState* state = nullptr;  ///< Null: none is used
  std::string line{};
};

/// @param states of all hosts  @param hosts the host of each
Decision choose(const Config& config, const ResidentRecord& record, const std::vector<ResidentState>& states,
                const std::vector<std::string>& hosts) {
  const ResidentState* newest = nullptr;
  for (const ResidentState& state : states)
    if (state.missing.empty() && (newest == nullptr || state.step > newest->step)) newest = &state;
  if (newest == nullptr) {
    std::string names;
    for (const std::string& host : record.hosts) names += (names.empty() ? "" : ", ") + host;
    if (names.empty()) return {};
    return {.line = cat("the state that the run kept in the memory of ", names,
                        " until it was killed is not there",
                        states.empty() ? "" : cat(" as a whole: ", states.front().missing))};
  }
  const auto host_of = [&](const ResidentState& state) -> const std::string& {
    return hosts[static_cast<std::size_t>(&state - states.data())];
  };
  const std::string what = cat("the state of step ", newest->step, " in the memory of ", host_of(*newest));
  if (!config.run.resumes_newest())
    return {.line = cat(what, " is not used: run.resume = ", nlohmann::json(config.run.resume).dump())};
  if (const std::string reason = why_not_resident(config.run.output, record, newest->step); !reason.empty())
    return {.line = cat(what, " is not used: ", reason)};
  for (const ResidentState& other : states)
    if (other.step == newest->step && other.checksum != newest->checksum)
      return {.line = cat(what, " is not used: ", host_of(other), " has another one of this step (XXH3 ",
                          hexadecimal(newest->checksum), " and ", hexadecimal(other.checksum),
                          "), so the memory of one of them is not to be trusted")};
  return {.state = newest, .line = cat(what, " was saved as a checkpoint")};
}

/// The states of a host as JSON, for worker 0.
nlohmann::json json_of(const std::vector<ResidentState>& states) {
  nlohmann::json all = nlohmann::json::array();
  for (const ResidentState& state : states)
    all.push_back({{"host", mpi::host_name()},
                   {"file", state.file},
                   {"step", state.step},
                   {"checksum", state.checksum},
                   {"missing", state.missing}});
  return all;
}

/// What is against keeping a state of so many bytes in this host's memory; empty: nothing.
std::string shortage(std::int64_t bytes) {
  const std::int64_t needed = states_at_once * bytes + spare_bytes;
  if (const auto free = free_bytes(ResidentFolder::memory); free && *free < needed)
    return cat(ResidentFolder::memory, " has ", bytes_text(*free), " left, two states take ",
               bytes_text(needed));
  if (const MemoryLimit limit = memory_limit(); limit.left < 2 * needed)
    return cat("two states take ", bytes_text(needed), " of ", limit.text());
  return {};
}

}  // namespace

std::vector<std::string> rescue_resident_state(const Config& config, const mpi::Communicator& workers,
                                               mpi::Watchdog& watchdog) {
  std::vector<std::string> lines;
  const std::string& run = config.run.output;
  const mpi::CpuProgressScope working(watchdog, "looking for a state in memory");
  std::optional<ResidentRecord> record;
  agree(workers, [&] {
    if (workers.is_root()) record = ResidentRecord::read(run);
  });
  std::string id = record ? record->id : "";
  workers.broadcast(id);
  const ResidentFolder folder(id);
  const bool first_of_host = workers.split_by_host().is_root();
  std::vector<std::string> own_lines;
  std::unique_ptr<RunLock> looks;
  agree(workers, [&] {
    if (first_of_host && !id.empty()) looks = folder.take(own_lines);
  });
  if (!id.empty()) {
    agree(workers, [&] {
      if (looks) folder.save_parts(run);
    });
    const std::string own =
        json_of(looks ? folder.states(run, own_lines) : std::vector<ResidentState>()).dump();
    std::vector<ResidentState> states;
    std::vector<std::string> hosts;
    std::vector<int> ranks;
    int rank = 0;
    for (const std::string& text : workers.all_gather(own)) {
      for (const nlohmann::json& json : nlohmann::json::parse(text)) {
        states.push_back({.file = json.at("file"),
                          .step = json.at("step"),
                          .checksum = json.at("checksum"),
                          .missing = json.at("missing")});
        hosts.push_back(json.at("host"));
        ranks.push_back(rank);
      }
      ++rank;
    }
    std::int64_t chosen = -1;
    agree(workers, [&] {
      if (!workers.is_root()) return;
      const Decision decision = choose(config, *record, states, hosts);
      if (decision.state != nullptr) chosen = decision.state - states.data();
      if (!decision.line.empty()) lines.push_back(decision.line);
    });
    workers.broadcast(std::span(&chosen, 1));
    const auto at = static_cast<std::size_t>(chosen);
    agree(workers, [&] {
      if (chosen >= 0 && ranks[at] == workers.rank()) save_resident_state(states[at], run);
    });
    if (looks) folder.remove();
  }
  if (first_of_host) std::ranges::copy(ResidentFolder::remove_abandoned(), std::back_inserter(own_lines));
  const std::vector<std::string> all = workers.all_gather(nlohmann::json(own_lines).dump());
  if (!workers.is_root()) return lines;
  for (const std::string& text : all)
    for (const nlohmann::json& line : nlohmann::json::parse(text)) lines.push_back(line);
  ResidentRecord::remove(run);
  return lines;
}

/// Why the strategy's states are not kept in memory; empty: they are.
std::string not_made_for(const RunParts& run) {
  if (run.sync.embeddings) return "rows of tables are on the servers only";
  const bool independent = run.sync.strategy->pace().independent;
  return independent && run.machine.servers != nullptr ? "workers of these servers are never at the same step"
                                                       : "";
}

std::unique_ptr<ResidentSaves> ResidentSaves::make(RunParts& run, Reporter& reporter) {
  const Resident wanted = run.config.checkpoint.resident;
  if (wanted == Resident::no) return nullptr;
  std::string against = not_made_for(run);
  std::int64_t bytes = 0;
  for (const StateArray& array : run.sync.strategy->live())
    bytes += static_cast<std::int64_t>(array.values.size() * sizeof(float));
  // Where workers hold different states, each has a part as large as a checkpoint.
  const std::int64_t on_host = bytes * (run.config.local_sgd() != nullptr ? 1 + run.machine.host.size() : 1);
  const std::string mine = run.machine.host.is_root() && against.empty() ? shortage(on_host) : "";
  const std::vector<std::string> all = run.machine.workers.all_gather(mine);
  for (std::size_t i = 0; i < all.size() && against.empty(); ++i)
    if (!all[i].empty()) against = cat(run.machine.places[i].host, ": ", all[i]);
  if (!against.empty()) {
    throw_alike([&] {
      if (wanted == Resident::yes)
        throw UserError(cat("checkpoint.resident = true: ", against, "; set it to \"auto\" to do without"));
    });
    if (run.machine.workers.is_root()) reporter.say(cat("memory       no state is kept in it: ", against));
    return nullptr;
  }
  std::unique_ptr<ResidentSaves> saves(new ResidentSaves(run, bytes));
  saves->begin();
  return saves;
}

void ResidentSaves::begin() {
  const mpi::Communicator& workers = run_.machine.workers;
  const std::string& output = run_.config.run.output;
  const std::string run = std::filesystem::absolute(output).lexically_normal().string();
  record_.id = workers.is_root() ? ResidentRecord::new_id() : "";
  workers.broadcast(record_.id);
  // First the record: without it another start on the host would take the folder for an abandoned one.
  agree(workers, [&] {
    if (!workers.is_root()) return;
    for (const mpi::Place& place : run_.machine.places)
      if (place.local_rank == 0 || std::ranges::find(record_.hosts, place.host) == record_.hosts.end())
        record_.hosts.push_back(place.host);
    const std::string folder = output + "/checkpoints";
    const auto files = checkpoints_in(folder);
    record_.follows = files.empty() ? -1 : files.rbegin()->first;
    record_.write(output);
  });
  const ResidentFolder folder(record_.id);
  agree(workers, [&] {
    if (!writes_checkpoint()) return;
    folder.make(run);
    lock_.emplace(folder.path());
  });
  SavingWorkers saving;
  const bool parts = run_.config.local_sgd() != nullptr;
  if (parts) saving = saving_workers(workers);
  saving.share_folder = false;
  agree(workers, [&] {
    if (parts || writes_checkpoint()) writer_ = std::make_unique<CheckpointWriter>(folder.path(), 1, saving);
  });
}

void ResidentSaves::follow(std::int64_t step) {
  record_.follows = step;
  record_.write(run_.config.run.output);
}

void ResidentSaves::end() {
  if (writer_) writer_->finish();
  run_.machine.workers.barrier();
  writer_.reset();
  if (writes_checkpoint()) ResidentFolder(record_.id).remove();
  run_.machine.workers.barrier();
  if (run_.machine.workers.is_root()) ResidentRecord::remove(run_.config.run.output);
}

}  // namespace flotilla
