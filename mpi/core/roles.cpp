// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/roles.hpp"

#include <algorithm>
#include <array>
#include <iomanip>
#include <numeric>
#include <sstream>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/host_lines.hpp"

namespace flotilla::mpi {

namespace {

constexpr const char* server_key = "roles.server_ranks";
constexpr const char* worker_key = "roles.worker_ranks";

std::vector<Role> symmetric_roles(std::size_t ranks) {
  if (ranks % 2 != 0) {
    throw UserError(
        cat("roles.kind = \"symmetric\" pairs each worker with a server and so needs an even number "
            "of ranks, got ",
            ranks, "; start ", ranks + 1, ranks > 1 ? cat(" or ", ranks - 1) : "",
            " ranks, or use roles.kind = \"ratio\""));
  }
  std::vector<Role> roles(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) roles[rank] = rank % 2 == 0 ? Role::server : Role::worker;
  return roles;
}

/// One server after the other goes to the host that has fewest; among those to the one with most ranks left,
/// so that a host keeps its worker where it can; among those to the first.
std::vector<Role> ratio_roles(int servers, const std::vector<Place>& places) {
  const int ranks = static_cast<int>(places.size());
  if (servers < 1 || servers >= ranks) {
    throw UserError(cat("roles.servers is ", servers, ", but of ", ranks, ranks == 1 ? " rank" : " ranks",
                        " at least one must serve and one must work; ",
                        ranks < 2 ? "start at least 2 ranks"
                                  : cat("give a number from 1 to ", ranks - 1, ", or start more ranks")));
  }
  const auto count = static_cast<std::size_t>(hosts(places));
  std::vector<std::vector<int>> of_host(count);
  for (const Place& place : places) of_host[static_cast<std::size_t>(place.host_index)].push_back(place.rank);
  std::vector<std::size_t> taken(count);
  for (int i = 0; i < servers; ++i) {
    std::size_t best = count;
    for (std::size_t host = 0; host < count; ++host) {
      const std::size_t left = of_host[host].size() - taken[host];
      if (left == 0) continue;
      if (best == count || taken[host] < taken[best] ||
          (taken[host] == taken[best] && left > of_host[best].size() - taken[best])) {
        best = host;
      }
    }
    ++taken[best];
  }
  std::vector<Role> roles(places.size(), Role::worker);
  for (std::size_t host = 0; host < count; ++host) {
    for (std::size_t i = 0; i < taken[host]; ++i)
      roles[static_cast<std::size_t>(of_host[host][i])] = Role::server;
  }
  return roles;
}

std::vector<Role> listed_roles(const RoleOptions& options, int ranks) {
  const std::vector<int> servers = parse_ranks(options.server_ranks, ranks, server_key);
  std::vector<int> workers = parse_ranks(options.worker_ranks, ranks, worker_key);
  std::vector<Role> roles(static_cast<std::size_t>(ranks), Role::worker);
  for (const int rank : servers) roles[static_cast<std::size_t>(rank)] = Role::server;
  for (const int rank : workers) {
    if (roles[static_cast<std::size_t>(rank)] == Role::server)
      throw UserError(cat("rank ", rank, " stands in ", server_key, " and in ", worker_key,
                          "; take it out of one of them"));
  }
  const std::size_t listed = servers.size() + workers.size();
  if (!workers.empty() && listed < roles.size()) {
    std::vector<int> rest(roles.size());
    std::iota(rest.begin(), rest.end(), 0);
    std::erase_if(rest, [&](int rank) {
      return std::ranges::find(servers, rank) != servers.end() ||
             std::ranges::find(workers, rank) != workers.end();
    });
    throw UserError(cat("rank", rest.size() == 1 ? " " : "s ", text_of_ranks(rest), " of ", ranks,
                        rest.size() == 1 ? " stands" : " stand", " neither in ", server_key, " nor in ",
                        worker_key, "; add ", rest.size() == 1 ? "it" : "them", " to one, or leave ",
                        worker_key, " empty: then all that do not serve work"));
  }
  if (servers.empty())
    throw UserError(cat(server_key, " names no rank; name at least one, or use roles.kind = \"collective\""));
  if (static_cast<int>(servers.size()) == ranks)
    throw UserError(
        cat(server_key, " names all ", ranks, " ranks, so that none works; leave at least one out"));
  return roles;
}

std::vector<Role> roles_of(const RoleOptions& options, const std::vector<Place>& places) {
  switch (options.kind) {
    case RoleKind::collective: break;
    case RoleKind::symmetric: return symmetric_roles(places.size());
    case RoleKind::ratio: return ratio_roles(options.servers, places);
    case RoleKind::user_defined: return listed_roles(options, static_cast<int>(places.size()));
  }
  return std::vector<Role>(places.size(), Role::worker);
}

const RoleEntry& entry_of(const RoleTable& table, const Communicator& world) {
  require(static_cast<int>(table.entries.size()) == world.size(), "roles of ", table.entries.size(),
          " ranks for ", world.size());
  return table.entries[static_cast<std::size_t>(world.rank())];
}

}  // namespace

std::string_view word_of(Role role) {
  return role == Role::server ? "server" : "worker";
}

int RoleTable::count(Role role) const {
  return static_cast<int>(std::ranges::count(entries, role, &RoleEntry::role));
}

std::vector<int> RoleTable::ranks(Role role) const {
  std::vector<int> result;
  for (const RoleEntry& entry : entries)
    if (entry.role == role) result.push_back(entry.rank);
  return result;
}

RoleTable assign_roles(const RoleOptions& options, const std::vector<Place>& places) {
  const std::vector<Role> roles = roles_of(options, places);
  RoleTable table;
  std::array<int, 2> next{};
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    require(places[rank].rank == static_cast<int>(rank), "places are listed in the order of the ranks");
    table.entries.push_back({.rank = static_cast<int>(rank),
                             .host = places[rank].host,
                             .host_index = places[rank].host_index,
                             .role = roles[rank],
                             .index = next[static_cast<std::size_t>(roles[rank])]++});
  }
  return table;
}

std::vector<std::string> lines_of(const RoleTable& table, const std::vector<std::string>& devices) {
  require(devices.empty() || devices.size() == table.entries.size(), devices.size(), " devices of ",
          table.entries.size(), " ranks");
  std::size_t width = 4;
  for (const RoleEntry& entry : table.entries) width = std::max(width, entry.host.size());
  std::vector<std::string> lines;
  const auto add = [&](const auto& rank, const auto& host, const auto& role, const auto& index,
                       std::string_view device) {
    std::ostringstream line;
    line << std::right << std::setw(5) << rank << "  " << std::left << std::setw(static_cast<int>(width))
         << host << "  " << std::setw(6) << role << "  " << std::right << std::setw(5) << index;
    if (!device.empty()) line << "  " << device;
    lines.push_back(line.str());
  };
  add("rank", "host", "role", "index", devices.empty() ? "" : "device");
  for (std::size_t i = 0; i < table.entries.size(); ++i) {
    const RoleEntry& entry = table.entries[i];
    add(entry.rank, entry.host, word_of(entry.role), entry.index, devices.empty() ? "" : devices[i]);
  }
  return lines;
}

std::vector<int> pairs_apart(const RoleTable& table) {
  std::vector<int> first;
  for (std::size_t rank = 0; rank + 1 < table.entries.size(); rank += 2) {
    if (table.entries[rank].host_index != table.entries[rank + 1].host_index)
      first.push_back(static_cast<int>(rank));
  }
  return first;
}

RoleCommunicators::RoleCommunicators(const Communicator& world, RoleTable table)
    : table_(std::move(table)),
      all_(world.collective_clone()),
      same_role_(world.split(static_cast<int>(entry_of(table_, world).role))) {}

const RoleEntry& RoleCommunicators::mine() const {
  return table_.entries[static_cast<std::size_t>(all_.rank())];
}

}  // namespace flotilla::mpi
