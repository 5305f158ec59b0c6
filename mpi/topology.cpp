// SPDX-License-Identifier: Apache-2.0
#include "mpi/topology.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "kernels/error.hpp"
#include "mpi/native.hpp"

namespace flotilla::mpi {

namespace {

constexpr std::size_t most_processors = 8192;  // what Linux can be built for
using Mask = std::vector<std::byte>;

Mask own_affinity() {
  Mask mask(CPU_ALLOC_SIZE(most_processors));
  if (sched_getaffinity(0, mask.size(), reinterpret_cast<cpu_set_t*>(mask.data())) != 0) {
    throw LibraryError("sched_getaffinity", std::strerror(errno));
  }
  return mask;
}

int count(const Mask& mask) {
  return CPU_COUNT_S(mask.size(), reinterpret_cast<const cpu_set_t*>(mask.data()));
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return !std::ranges::equal(a, b, [](std::byte x, std::byte y) { return (x & y) == std::byte{0}; });
}

}  // namespace

std::string host_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
  int length = 0;
  check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

std::vector<Place> find_topology(const Communicator& world) {
  const Communicator host = world.split_by_host();
  const Mask mask = own_affinity();
  const Mask masks = host.all_gather(std::span<const std::byte>(mask));
  int first_of_host = world.rank();  // names the host: host names need not be unique
  host.broadcast(std::span(&first_of_host, 1));
  int sharing = 0;
  for (std::size_t at = 0; at < masks.size(); at += mask.size()) {
    sharing += overlap(mask, std::span(masks).subspan(at, mask.size())) ? 1 : 0;
  }
  const std::array mine{first_of_host, host.rank(), count(mask), sharing};
  const std::vector<int> all = world.all_gather(std::span<const int>(mine));
  const std::vector<std::string> names = world.all_gather(host_name());

  std::vector<int> firsts;
  std::vector<Place> places;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto facts = std::span(all).subspan(rank * mine.size(), mine.size());
    if (static_cast<std::size_t>(facts[0]) == rank) firsts.push_back(facts[0]);
    const auto index = std::ranges::find(firsts, facts[0]) - firsts.begin();
    places.push_back({.rank = static_cast<int>(rank),
                      .host = names[rank],
                      .host_index = static_cast<int>(index),
                      .local_rank = facts[1],
                      .cores = facts[2],
                      .cores_shared_by = facts[3]});
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
  return std::max(1, place.cores / std::max(1, place.cores_shared_by));
}

}  // namespace flotilla::mpi
