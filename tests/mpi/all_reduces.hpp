// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/topology.hpp"

namespace flotilla::mpi {

/// One way to add, as tests name it.
struct Way {
  std::string algorithm;
  Wire wire = Wire::float32;
  int ranks_per_group = 0;
  bool inside_in_memory = true;
  SumOrder order = SumOrder::any;
};

inline std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.algorithm << " " << name(way.wire) << " " << way.ranks_per_group;
}

/// GoogleTest allows only letters and digits.
inline std::string test_name(const Way& way) {
  std::string name = way.algorithm + std::string(mpi::name(way.wire));
  if (way.algorithm == "hierarchical")
    name += "GroupsOf" + std::to_string(way.ranks_per_group) + (way.inside_in_memory ? "" : "OverMpi");
  if (way.order == SumOrder::tree) name += "InATree";
  std::erase(name, '-');
  return name;
}

inline std::vector<Way> all_ways() {
  return {
      {.algorithm = "mpi"},
      {.algorithm = "mpi", .wire = Wire::float16},
      {.algorithm = "mpi", .wire = Wire::bfloat16},
      {.algorithm = "shared-memory"},
      {.algorithm = "hierarchical"},
      {.algorithm = "hierarchical", .ranks_per_group = 1},
      {.algorithm = "hierarchical", .ranks_per_group = 2},
      {.algorithm = "hierarchical", .wire = Wire::float16, .ranks_per_group = 2},
      {.algorithm = "hierarchical", .ranks_per_group = 3},
      {.algorithm = "hierarchical", .ranks_per_group = 3, .inside_in_memory = false},
      {.algorithm = "hierarchical", .wire = Wire::bfloat16, .ranks_per_group = 4, .inside_in_memory = false},
      {.algorithm = "mpi", .order = SumOrder::tree},
      {.algorithm = "hierarchical", .ranks_per_group = 2, .order = SumOrder::tree},
      {.algorithm = "hierarchical",
       .ranks_per_group = 2,
       .inside_in_memory = false,
       .order = SumOrder::tree}};
}

/// Collective. `storage` is that of the host's ranks. Null if this way cannot be on these hosts.
inline std::unique_ptr<Collectives> make(const Way& way, const Communicator& world, SharedStorage& storage) {
  const AllReduceKind& kind = all_reduce_kind(way.algorithm);
  AllReduceSite site = find_site(find_topology(world), std::min(way.ranks_per_group, world.size()));
  if (way.inside_in_memory && kind.groups != Groups::none && !site.groups_in_memory) return nullptr;
  site.groups_in_memory = way.inside_in_memory;
  site.order = way.order;
  if (!why_not(kind, site).empty()) return nullptr;
  const Communicator host = world.split_by_host();
  return kind.make(
      {.site = site, .world = world, .host = host, .wire = way.wire, .window = &storage, .most = 0});
}

/// Integers below this one add up exactly over 8 ranks, on the wire too.
inline std::size_t exact_below(Wire wire) {
  return wire == Wire::float32 ? 1021 : wire == Wire::float16 ? 251 : 31;
}

}  // namespace flotilla::mpi
