// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/topology.hpp"

#include <mpi.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>

#include "kernels/error.hpp"
#include "kernels/machine/processors.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

/// The life of MPI's interface to its own variables.
class Variables {
 public:
  Variables() {
    int granted = 0;
    check(MPI_T_init_thread(MPI_THREAD_MULTIPLE, &granted), "MPI_T_init_thread");
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;
  ~Variables() { MPI_T_finalize(); }
};

std::optional<bool> read_yields() {
  const Variables variables;
  int index = 0;
  if (MPI_T_cvar_get_index("mpi_yield_when_idle", &index) != MPI_SUCCESS) return std::nullopt;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return std::nullopt;
  long long value = 0;  // it may be narrower: then some byte is not 0
  const bool read = count == 1 && MPI_T_cvar_read(handle, &value) == MPI_SUCCESS &&
                    MPI_T_cvar_handle_free(&handle) == MPI_SUCCESS;
  if (!read) return std::nullopt;
  return value != 0;
}

/// Whether a rank that waits inside MPI yields its processor (Open MPI: mpi_yield_when_idle, however it was
/// set). Empty where the library does not report it. Constant while MPI runs.
std::optional<bool> yields_when_idle() {
  // Open MPI loads all its parts for this, 0.2 s where it has those for PSM.
  static const std::optional<bool> yields = read_yields();
  return yields;
}

/// Ranks of the host with a processor in common with this one, itself included. Collective.
int sharing_processors(const Communicator& host, const std::vector<int>& own) {
  int most = own.empty() ? 0 : own.back() + 1;
  host.all_reduce(std::span(&most, 1), Op::max);
  std::vector<std::byte> mask(static_cast<std::size_t>(most));
  for (const int id : own) mask[static_cast<std::size_t>(id)] = std::byte{1};
  const std::vector<std::byte> masks = host.all_gather(std::span<const std::byte>(mask));
  int sharing = 0;
  for (std::size_t at = 0; at < masks.size(); at += mask.size())
    sharing += std::ranges::any_of(
                   own, [&](int id) { return masks[at + static_cast<std::size_t>(id)] != std::byte{}; })
                   ? 1
                   : 0;
  return sharing;
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Whether Open MPI may copy long messages from process to process, found by their ids.
bool copies_between_processes() {
  if (!Environment::library_version().starts_with("Open MPI")) return false;
  if (environment("OMPI_MCA_btl_vader_single_copy_mechanism") == "none") return false;
  const std::string_view transports = environment("OMPI_MCA_btl");
  const bool named = transports.find("vader") != transports.npos || transports.find("sm") != transports.npos;
  return transports.empty() || transports.starts_with('^') != named;
}

}  // namespace

std::string unsafe_process_ids(const Communicator& world) {
  struct stat ids {};
  const std::int64_t mine =
      ::stat("/proc/self/ns/pid", &ids) == 0 ? static_cast<std::int64_t>(ids.st_ino) : 0;
  const std::vector<std::int64_t> here = world.split_by_host().all_gather(std::span(&mine, 1));
  const bool differ = std::ranges::any_of(here, [&](std::int64_t other) { return other != mine; });
  int first = differ && copies_between_processes() ? world.rank() : world.size();
  world.all_reduce(std::span(&first, 1), Op::min);
  if (first == world.size()) return "";
  std::string host = host_name();
  world.broadcast(host, first);
  return cat("the ranks on ", host,
             " see different process ids, as in containers of their own, and Open MPI's copies from process "
             "to process may reach the wrong one: start the ranks of a host in one container, give their "
             "containers one set of ids (docker run --pid=host), or do without these copies (mpirun --mca "
             "btl_vader_single_copy_mechanism none)");
}

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

std::vector<Place> find_topology(const Communicator& world) {
  const Communicator host = world.split_by_host();
  const Processors processors = find_processors();
  int first_of_host = world.rank();  // names the host: host names need not be unique
  host.broadcast(std::span(&first_of_host, 1));
  const std::vector<std::string> groups = host.all_gather(processors.quota_group);
  const std::array<double, 11> mine{static_cast<double>(first_of_host),
                                    static_cast<double>(host.rank()),
                                    static_cast<double>(processors.own.size()),
                                    static_cast<double>(sharing_processors(host, processors.own)),
                                    static_cast<double>(processors.allowed),
                                    static_cast<double>(processors.host_sockets),
                                    static_cast<double>(processors.host_nodes),
                                    static_cast<double>(processors.gpus),
                                    processors.quota,
                                    static_cast<double>(std::ranges::count(groups, processors.quota_group)),
                                    yields_when_idle().value_or(true) ? 1.0 : 0.0};
  const std::vector<double> all = world.all_gather(std::span<const double>(mine));
  const std::vector<std::string> names = world.all_gather(host_name());

  std::vector<int> firsts;
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    auto next = all.begin() + static_cast<std::ptrdiff_t>(rank * mine.size());
    const auto count = [&next] { return static_cast<int>(*next++); };
    const int first = count();
    if (static_cast<std::size_t>(first) == rank) firsts.push_back(first);
    const auto index = std::ranges::find(firsts, first) - firsts.begin();
    Place& place = places.emplace_back();
    place.rank = static_cast<int>(rank);
    place.host = names[rank];
    place.host_index = static_cast<int>(index);
    place.local_rank = count();
    place.cores = count();
    place.cores_shared_by = count();
    place.host_cores = count();
    place.sockets = count();
    place.nodes = count();
    place.gpus = count();
    place.quota = *next++;
    place.quota_shared_by = count();
    place.yields = *next++ != 0.0;
  }
  return places;
}

std::vector<std::string> host_names(const std::vector<Place>& places) {
  std::vector<std::string> names;
  for (const Place& place : places) names.push_back(place.host);
  return names;
}

int hosts(const std::vector<Place>& places) {
  int last = -1;
  for (const Place& place : places) last = std::max(last, place.host_index);
  return last + 1;
}

int default_threads(const Place& place) {
  int threads = place.cores / std::max(1, place.cores_shared_by);
  if (place.quota > 0.0) threads = std::min(threads, static_cast<int>(place.quota / place.quota_shared_by));
  return std::max(1, threads);
}

std::vector<int> cut_groups(const std::vector<Place>& places, int ranks_per_group) {
  if (ranks_per_group < 0 || ranks_per_group > static_cast<int>(places.size()))
    throw UserError(cat("strategy.ranks_per_group (--ranks-per-group) is ", ranks_per_group,
                        ", but there are ", places.size(), places.size() == 1 ? " worker" : " workers",
                        "; give a number from 1 to that, or 0 for a group per host"));
  std::vector<int> groups(places.size());
  if (ranks_per_group == 0) {
    std::ranges::transform(places, groups.begin(), &Place::host_index);
    return groups;
  }
  std::vector<std::tuple<int, int, std::size_t>> order;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    order.emplace_back(places[rank].host_index, places[rank].local_rank, rank);
  std::ranges::sort(order);
  for (std::size_t at = 0; at < order.size(); ++at)
    groups[std::get<2>(order[at])] = static_cast<int>(at) / ranks_per_group;
  return groups;
}

bool groups_are_subtrees(const std::vector<int>& groups) {
  const auto size = static_cast<std::size_t>(std::ranges::count(groups, groups.front()));
  const bool alone = size == groups.size();
  for (std::size_t rank = 0; rank < groups.size(); ++rank)
    if (groups[rank] != static_cast<int>(rank / size)) return false;
  return alone || std::has_single_bit(size);
}

bool groups_are_equal(const std::vector<int>& groups) {
  const auto size = std::ranges::count(groups, groups.front());
  return std::ranges::all_of(groups, [&](int group) { return std::ranges::count(groups, group) == size; });
}

bool groups_stay_on_hosts(const std::vector<Place>& places, const std::vector<int>& groups) {
  std::map<int, int> host_of;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    if (host_of.emplace(groups[rank], places[rank].host_index).first->second != places[rank].host_index)
      return false;
  return true;
}

}  // namespace flotilla::mpi
