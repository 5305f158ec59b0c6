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

namespace flotilla {

namespace {

/// While one state is being written, the one before is there, and the file system takes some room for itself.
constexpr std::int64_t states_at_once = 2;
constexpr std::int64_t spare_bytes = std::int64_t{8} << 20;

/// The state that this host keeps of a run's last start; its step is −1 where there is none. `damage` gets
/// what is wrong with it.
ResidentState kept_here(const ResidentFolder& folder, std::vector<std::string>& damage) {
  try {
    if (const auto file = folder.newest(damage)) return resident_state_of(*file);
  } catch (const UserError& error) {
    damage.push_back(error.what());
  }
  return {};
}

/// What worker 0 decides about the states of all hosts.
struct Decision {
  int rank = -1;  ///< That of the worker whose host has the state; −1: none is used
  std::string line{};
};

Decision choose(const Config& config, const ResidentRecord& record, const std::vector<ResidentState>& states,
                const std::vector<std::string>& hosts) {
  const auto newest = std::ranges::max_element(states, {}, &ResidentState::step);
  const auto at = static_cast<std::size_t>(newest - states.begin());
  if (newest->step < 0) {
    std::string names;
    for (const std::string& host : record.hosts) names += (names.empty() ? "" : ", ") + host;
    return {.line = names.empty()
                        ? ""
                        : cat("no host of this job has the state that the run kept in the memory of ", names,
                              " until it was killed")};
  }
  const std::string what = cat("the state of step ", newest->step, " in the memory of ", hosts[at]);
  if (!config.run.resumes_newest())
    return {.line = cat(what, " is not used: run.resume = ", nlohmann::json(config.run.resume).dump())};
  if (const std::string reason = why_not_resident(config.run.output, record, newest->step); !reason.empty())
    return {.line = cat(what, " is not used: ", reason)};
  for (std::size_t i = 0; i < states.size(); ++i)
    if (states[i].step == newest->step && states[i].checksum != newest->checksum)
      return {.line = cat(what, " is not used: ", hosts[i], " has another one of this step (XXH3 ",
                          hexadecimal(newest->checksum), " and ", hexadecimal(states[i].checksum),
                          "), so the memory of one of them is not to be trusted")};
  return {.rank = static_cast<int>(at), .line = cat(what, " was saved as a checkpoint")};
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

void rescue_resident_state(const Config& config, const mpi::Communicator& workers, mpi::Watchdog& watchdog,
                           std::vector<std::string>& lines) {
  watchdog.beat("looking for a state in memory", -1);
  std::optional<ResidentRecord> record;
  agree(workers, [&] {
    if (workers.is_root()) record = ResidentRecord::read(config.run.output);
  });
  std::string id = record ? record->id : "";
  workers.broadcast(id);
  const ResidentFolder folder(id);
  const bool first_of_host = workers.split_by_host().is_root();
  const mpi::CpuProgressScope working(watchdog, "looking for a state in memory");
  ResidentState mine;
  std::vector<std::string> mine_lines;
  if (first_of_host && !id.empty()) mine = kept_here(folder, mine_lines);
  int chosen = -1;
  if (!id.empty()) {
    std::vector<ResidentState> states;
    std::vector<std::string> hosts;
    const nlohmann::json own{{"host", mpi::host_name()}, {"step", mine.step}, {"checksum", mine.checksum}};
    for (const std::string& text : workers.all_gather(own.dump())) {
      const nlohmann::json json = nlohmann::json::parse(text);
      hosts.push_back(json.at("host"));
      states.push_back({.file = {}, .step = json.at("step"), .checksum = json.at("checksum")});
    }
    std::int64_t rank = -1;
    agree(workers, [&] {
      if (!workers.is_root()) return;
      const Decision decision = choose(config, *record, states, hosts);
      if (!decision.line.empty()) lines.push_back(decision.line);
      rank = decision.rank;
    });
    workers.broadcast(std::span(&rank, 1));
    chosen = static_cast<int>(rank);
  }
  agree(workers, [&] {
    if (chosen == workers.rank()) save_resident_state(mine, config.run.output);
    if (!first_of_host) return;
    if (!id.empty()) folder.remove();
    std::ranges::copy(ResidentFolder::remove_abandoned(), std::back_inserter(mine_lines));
  });
  const std::vector<std::string> all = workers.all_gather(nlohmann::json(mine_lines).dump());
  if (!workers.is_root()) return;
  for (const std::string& text : all)
    for (const nlohmann::json& line : nlohmann::json::parse(text)) lines.push_back(line);
  ResidentRecord::remove(config.run.output);
}

std::unique_ptr<ResidentSaves> ResidentSaves::make(RunParts& run, Reporter& reporter) {
  const Resident wanted = run.config.checkpoint.resident;
  if (wanted == Resident::no) return nullptr;
  std::string against;
  if (run.config.all_reduce() == nullptr || run.machine.servers != nullptr)
    against = "it is not made for this strategy, in which workers or servers hold different states";
  std::int64_t bytes = 0;
  for (const StateArray& array : run.sync.strategy->live())
    bytes += static_cast<std::int64_t>(array.values.size() * sizeof(float));
  const bool writes = run.machine.host.is_root();
  const std::string mine = writes && against.empty() ? shortage(bytes) : "";
  const std::vector<std::string> all = run.machine.workers.all_gather(mine);
  for (std::size_t i = 0; i < all.size() && against.empty(); ++i)
    if (!all[i].empty()) against = cat(run.machine.places[i].host, ": ", all[i]);
  if (!against.empty()) {
    throw_alike([&] {
      if (wanted == Resident::yes)
        throw UserError(cat("checkpoint.resident = true: ", against, "; set it to \"auto\" to do without"));
    });
    if (run.machine.workers.is_root()) reporter.say(cat("resident     no state in memory: ", against));
    return nullptr;
  }
  std::unique_ptr<ResidentSaves> saves(new ResidentSaves(run, bytes));
  saves->begin(writes);
  return saves;
}

void ResidentSaves::begin(bool writes) {
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
  agree(workers, [&] {
    if (!writes) return;
    const ResidentFolder folder(record_.id);
    folder.make(run);
    lock_.emplace(folder.path());
    writer_ = std::make_unique<CheckpointWriter>(folder.path(), 1);
  });
}

void ResidentSaves::follow(std::int64_t step) {
  record_.follows = step;
  record_.write(run_.config.run.output);
}

void ResidentSaves::end() {
  if (writer_) writer_->finish();
  writer_.reset();
  ResidentFolder(record_.id).remove();
  run_.machine.workers.barrier();
  if (run_.machine.workers.is_root()) ResidentRecord::remove(run_.config.run.output);
}

}  // namespace flotilla
