// SPDX-License-Identifier: Apache-2.0
#include "src/train/resident_saves.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "mpi/core/topology.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"
#include "src/job/failure.hpp"
#include "src/observe/console.hpp"
#include "src/train/model_state.hpp"
#include "src/train/run_folder.hpp"

namespace flotilla {

namespace {

/// While a state is being written, the previous one still exists, and the file system needs some room for
/// itself.
constexpr std::int64_t states_at_once = 2;
constexpr std::int64_t spare_bytes = std::int64_t{8} << 20;

/// What worker 0 decides about the states of all hosts.
struct Decision {
  const ResidentState* state = nullptr;  ///< Null: none is used
  std::string line{};
};

/// @param states of all hosts  @param hosts the host of each  @param used the words for a state that is used
Decision choose(const Config& config, const ResidentRecord& record, const std::vector<ResidentState>& states,
                const std::vector<std::string>& hosts, const char* used) {
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
  return {.state = newest, .line = cat(what, used)};
}

/// JSON for other ranks; names of folders need not be UTF-8, which JSON requires.
std::string utf8_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
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

/// Why this host's memory has no room for a state of `bytes` bytes; empty: it has room.
std::string shortage(std::int64_t bytes) {
  const std::int64_t needed = states_at_once * bytes + spare_bytes;
  if (::access(ResidentFolder::memory, W_OK | X_OK) != 0)
    return cat(ResidentFolder::memory, ": ", system_message(errno));
  if (const auto free = free_bytes(ResidentFolder::memory); free && *free < needed)
    return cat(ResidentFolder::memory, " has ", bytes_text(*free), " left, two states take ",
               bytes_text(needed));
  if (const MemoryLimit limit = memory_limit(); limit.left < 2 * needed)
    return cat("two states take ", bytes_text(needed), " of ", limit.text());
  return {};
}

/// The states of all hosts, with the host and the rank that can read each.
struct FoundStates {
  std::vector<ResidentState> states{};
  std::vector<std::string> hosts{};
  std::vector<int> ranks{};
};

/// Collective. @param own the states that this rank can read
FoundStates gather(const mpi::Communicator& workers, const std::vector<ResidentState>& own) {
  FoundStates found;
  int rank = 0;
  for (const std::string& text : workers.all_gather(utf8_text(json_of(own)))) {
    for (const nlohmann::json& json : nlohmann::json::parse(text)) {
      found.states.push_back({.file = json.at("file"),
                              .step = json.at("step"),
                              .checksum = json.at("checksum"),
                              .missing = json.at("missing")});
      found.hosts.push_back(json.at("host"));
      found.ranks.push_back(rank);
    }
    ++rank;
  }
  return found;
}

/// Collective. @returns the record of the run's last start on worker 0, its id on all; no id: none
ResidentRecord read_record(const Config& config, const mpi::Communicator& workers) {
  ResidentRecord record;
  agree(workers, [&] {
    if (workers.is_root()) record = ResidentRecord::read(config.run.output).value_or(ResidentRecord());
  });
  workers.broadcast(record.id);
  return record;
}

/// Collective. Saves what the hosts keep of the run's last start, the parts of workers first, and frees the
/// memory.
/// @param record of worker 0  @param looks this rank does it for its host  @param own_lines of this host
/// @returns on worker 0 what was done
std::string save_newest(const Config& config, const mpi::Communicator& workers, const ResidentRecord& record,
                        bool looks, std::vector<std::string>& own_lines) {
  const std::string& run = config.run.output;
  const ResidentFolder folder(record.id);
  std::unique_ptr<RunLock> taken;
  std::vector<ResidentState> own;
  agree(workers, [&] {
    if (looks) taken = folder.take(own_lines);
    if (taken) folder.save_parts(run);
  });
  agree(workers, [&] {  // all hosts have saved their parts
    if (taken) own = folder.states(run, own_lines);
  });
  const FoundStates found = gather(workers, own);
  Decision decision;
  std::int64_t chosen = -1;
  agree(workers, [&] {
    if (!workers.is_root()) return;
    decision = choose(config, record, found.states, found.hosts, " was saved as a checkpoint");
    if (decision.state != nullptr) chosen = decision.state - found.states.data();
  });
  workers.broadcast(std::span(&chosen, 1));
  agree(workers, [&] {
    const auto at = static_cast<std::size_t>(chosen);
    if (chosen >= 0 && found.ranks[at] == workers.rank()) save_resident_state(found.states[at], run);
  });
  if (taken) folder.remove();
  return decision.line;
}

/// Why the strategy's states are not kept in memory; empty: they are.
std::string not_made_for(const RunParts& run) {
  if (run.sync.embeddings) return "rows of tables are on the servers only";
  const bool independent = run.sync.strategy->pace().independent;
  return independent && run.machine.servers != nullptr ? "workers of these servers are never at the same step"
                                                       : "";
}

std::int64_t bytes_of_state(const RunParts& run) {
  std::int64_t bytes = 0;
  for (const StateArray& array : run.sync.strategy->live())
    bytes += static_cast<std::int64_t>(array.values.size() * sizeof(float));
  return bytes;
}

}  // namespace

std::vector<std::string> rescue_resident_state(const Config& config, const mpi::Communicator& workers,
                                               mpi::Watchdog& watchdog) {
  const mpi::CpuProgressScope working(watchdog, "looking for a state in memory");
  const ResidentRecord record = read_record(config, workers);
  const bool first_of_host = workers.split_by_host().is_root();
  std::vector<std::string> lines;
  std::vector<std::string> own_lines;
  if (!record.id.empty())
    if (std::string line = save_newest(config, workers, record, first_of_host, own_lines); !line.empty())
      lines.push_back(std::move(line));
  if (first_of_host) std::ranges::copy(ResidentFolder::remove_abandoned(), std::back_inserter(own_lines));
  const std::vector<std::string> all = workers.all_gather(utf8_text(own_lines));
  if (!workers.is_root()) return {};
  for (const std::string& text : all)
    for (const nlohmann::json& line : nlohmann::json::parse(text)) lines.push_back(line);
  ResidentRecord::remove(config.run.output);
  return lines;
}

std::string resident_state_line(const Config& config, const mpi::Communicator& workers) {
  const ResidentRecord record = read_record(config, workers);
  if (record.id.empty()) return {};
  const bool first_of_host = workers.split_by_host().is_root();
  std::vector<ResidentState> own;
  agree(workers, [&] {
    std::vector<std::string> damage;
    if (first_of_host) own = ResidentFolder(record.id).states(config.run.output, damage);
  });
  FoundStates found = gather(workers, own);
  if (!workers.is_root()) return {};
  for (ResidentState& state : found.states) state.missing.clear();  // the parts are in memory, too
  return choose(config, record, found.states, found.hosts, " would be saved as a checkpoint to resume from")
      .line;
}

std::string why_none_in_memory(const RunParts& run) {
  const Resident wanted = run.config.checkpoint.resident;
  if (wanted == Resident::no) return "checkpoint.resident = false";
  std::string against = not_made_for(run);
  // If workers hold different states, each has a part as large as a checkpoint.
  const std::int64_t states = run.config.local_sgd() != nullptr ? 1 + run.machine.host.size() : 1;
  std::string mine;
  if (run.machine.host.is_root() && against.empty()) mine = shortage(states * bytes_of_state(run));
  const std::vector<std::string> all = run.machine.workers.all_gather(mine);
  for (std::size_t i = 0; i < all.size() && against.empty(); ++i)
    if (!all[i].empty()) against = cat(run.machine.places[i].host, ": ", all[i]);
  throw_alike([&] {
    if (wanted == Resident::yes && !against.empty())
      throw UserError(cat("checkpoint.resident = true: ", against, "; set it to \"auto\" to do without"));
  });
  return against;
}

ResidentSaves::ResidentSaves(RunParts& run) : run_(run), bytes_(bytes_of_state(run)) {
  const mpi::Communicator& workers = run_.machine.workers;
  const std::string& output = run_.config.run.output;
  const std::string path = std::filesystem::absolute(output).lexically_normal().string();
  record_.id = workers.is_root() ? ResidentRecord::new_id() : "";
  workers.broadcast(record_.id);
  // First the record: without it another start on the host would take the folder for an abandoned one.
  agree(workers, [&] {
    if (!workers.is_root()) return;
    for (const mpi::Place& place : run_.machine.places)
      if (std::ranges::find(record_.hosts, place.host) == record_.hosts.end())
        record_.hosts.push_back(place.host);
    const auto files = checkpoints_in(output + "/checkpoints");
    record_.follows = files.empty() ? -1 : files.rbegin()->first;
    record_.write(output);
  });
  const ResidentFolder folder(record_.id);
  agree(workers, [&] {
    if (!writes_checkpoint()) return;
    folder.make(path);
    lock_.emplace(folder.path());
  });
  SavingWorkers saving;
  const bool parts = run_.config.local_sgd() != nullptr;
  if (parts) saving = saving_workers(workers, run_.machine.own_place());
  saving.share_folder = false;
  agree(workers, [&] {
    if (parts || writes_checkpoint()) writer_ = std::make_unique<CheckpointWriter>(folder.path(), 1, saving);
  });
}

void ResidentSaves::set_base_checkpoint(std::int64_t step) {
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
