// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/topology.hpp"
#include "src/config/deck.hpp"
#include "src/files/packed_fields.hpp"

namespace flotilla {

/// Collective. The value of each rank, by rank.
template <class T>
std::vector<T> gather_packed(const T& mine, const mpi::Communicator& world) {
  std::vector<T> all;
  for (const std::string& each : world.all_gather(packed(mine))) all.push_back(unpacked<T>(each));
  return all;
}

/// Collective. All get the value of rank `root`.
template <class T>
void broadcast_packed(T& value, const mpi::Communicator& world, int root = 0) {
  std::string bytes = world.rank() == root ? packed(value) : "";
  world.broadcast(bytes, root);
  if (world.rank() != root) value = unpacked<T>(bytes);
}

/// Collective. Refuses data of which the ranks see different numbers of samples (a host with an old copy, a
/// list that is still being written): steps and shards depend on that number and would not match.
/// @param samples on this rank  @param key of the deck that names the data
/// @throws AgreedFailure on every rank, naming the first rank that differs from rank 0
void check_same_data(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                     std::int64_t samples, std::string_view key);

/// Collective. Throws an AgreedFailure that names the key if a rank has another value of one than rank 0, as
/// arguments that depend on the rank or its host would give it. Paths may differ, and what a host has of
/// threads and memory.
void check_same_deck(const Config& config, const mpi::Communicator& world);

/// Collective. Rank 0 reads the file, every rank checks the text that it read, with its own overrides, as
/// check_same_deck().
LoadedDeck load_deck_everywhere(const std::string& path, const std::vector<std::string>& overrides,
                                const mpi::Communicator& world);

/// Collective. Refuses a run's folder that is not shared by all ranks: rank 0 writes a file into the folder,
/// or into its nearest existing parent, and each rank looks for it, for some time, because a network file
/// system may show it late. The file is removed again. Where rank 0 cannot write, nothing is
/// checked: the code that makes the folder reports it.
/// @param places of all ranks of `world`  @param folder as this rank names it, absolute  @param key of the
/// deck
/// @throws AgreedFailure on every rank, naming the hosts that do not see it
void check_shared_folder(const mpi::Communicator& world, const std::vector<mpi::Place>& places,
                         const std::string& folder, const std::string& key, double patience_s = 10.0);

}  // namespace flotilla
