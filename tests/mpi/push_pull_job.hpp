// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mpi/core/roles.hpp"
#include "mpi/push_pull/push_pull_server.hpp"
#include "mpi/push_pull/push_pull_worker.hpp"
#include "tests/mpi/on_all_ranks.hpp"

namespace flotilla::mpi {

enum class Sharing { one_run_each, many_runs, all_to_the_first };

inline std::vector<ServerShare> shares_of(Sharing sharing, std::size_t floats,
                                          const std::vector<int>& servers) {
  std::vector<ServerShare> shares;
  for (const int rank : servers) shares.push_back({.rank = rank});
  const std::size_t n = servers.size();
  switch (sharing) {
    case Sharing::one_run_each:
      for (std::size_t s = 0; s < n; ++s) shares[s].runs.push_back({floats * s / n, floats * (s + 1) / n});
      break;
    case Sharing::many_runs:
      // Gaps of two floats belong to no server.
      for (std::size_t begin = 0, i = 0; begin < floats; begin += 13 + 2, ++i)
        shares[i % n].runs.push_back({begin, std::min(begin + 13, floats)});
      break;
    case Sharing::all_to_the_first: shares[0].runs.push_back({0, floats}); break;
  }
  return shares;
}

/// Calls use(i) for each value that a server has.
template <class Use>
void for_each_value(const std::vector<ServerShare>& shares, const Use& use) {
  for (const ServerShare& share : shares)
    for (const SliceBounds& run : share.runs)
      for (std::size_t i = run.begin; i < run.end; ++i) use(i);
}

/// Waits without a call to MPI: this process is as good as stopped.
inline void wait_for_file(const std::string& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

/// One side of a job of servers (even ranks) and workers (odd ones).
class Job {
 public:
  explicit Job(const Communicator& world)
      : roles_(world, assign_roles({.kind = RoleKind::symmetric}, find_topology(world))) {}

  bool is_server() const { return roles_.is_server(); }
  int index() const { return roles_.mine().index; }
  int workers() const { return roles_.table().count(Role::worker); }
  const Communicator& same_role() const { return roles_.same_role(); }
  /// Collective. Makes this rank's end and runs its side.
  void run(Sharing sharing, std::size_t floats, PushPullWires wires, ServerRoom room,
           const std::function<void(PushPullServer&, std::size_t)>& serve,
           const std::function<void(PushPullWorker&, const std::vector<ServerShare>&)>& work) const {
    const auto shares = shares_of(sharing, floats, roles_.table().ranks(Role::server));
    if (is_server()) {
      const std::size_t values = shares[static_cast<std::size_t>(index())].values();
      PushPullServer server(roles_.all(), roles_.table().ranks(Role::worker), values, wires, room);
      serve(server, values);
    } else {
      PushPullWorker worker(roles_.all(), shares, wires);
      work(worker, shares);
      worker.farewell();
    }
  }

 private:
  RoleCommunicators roles_;
};

/// A test that servers and workers do together.
class ServersAndWorkers : public OnAllRanks {
 protected:
  const Job job{world};
};

}  // namespace flotilla::mpi
