// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/core/topology.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// How a run may add its gradients: a function of the deck, of where its workers are and of an earlier
/// choice.
struct AllReducePlan {
  std::vector<std::string> candidates;  ///< The deck's word, or what "auto" measures, the likeliest first
  std::vector<int> groups;              ///< Of those in groups: each rank's
  bool groups_in_memory = false;        ///< Inside a group through shared memory
  bool staged = false;                  ///< Through a mirror in the host's memory (reduced_array.hpp)
  bool window = false;  ///< What is summed, or its mirror, must lie in memory that the host's ranks share
  mpi::Wire wire = mpi::Wire::float32;
  mpi::SumOrder order = mpi::SumOrder::any;
  int communicators = 1;
  std::string left_out{};  ///< What "auto" does without for lack of shared memory, and why; empty: nothing
};

/// `order`: the tree where bits must not depend on the number of workers. `shares_memory`: the device's
/// memory is the host's. `saved`: what a checkpoint chose; empty: nothing. `no_nccl`: why the workers cannot
/// sum by NCCL (gpus.hpp); empty: they can. @throws UserError if the deck asks for what these workers or this
/// many buckets cannot do.
AllReducePlan plan_all_reduce(const StrategyConfig& strategy, const std::vector<mpi::Place>& places,
                              bool shares_memory, const std::string& saved, std::size_t buckets,
                              mpi::SumOrder order = mpi::SumOrder::any,
                              const std::string& no_nccl = "needs device.kind = \"cuda\"");

/// Collective over `all`, whose ranks have plans made from one deck. Asks for the room of a window of `count`
/// floats where the plan has one. If a host has too little, "auto" leaves out what needs windows, on all
/// hosts.
/// @param automatic whether the deck says "auto" @throws AgreedFailure if it names what needs a window
void fit_to_shared_memory(AllReducePlan& plan, bool automatic, std::size_t count,
                          const mpi::Communicator& all);

/// What adds the gradients of a run.
struct Reduction {
  std::vector<std::unique_ptr<mpi::Collectives>> lanes;  ///< One per communicator
  /// What a half wire would falsify (counts, sums, statistics) goes over this one; null: with the last
  /// bucket.
  std::unique_ptr<mpi::Collectives> exact;
  std::string description;         ///< "hierarchical in 2 groups, float16, 2 communicators"
  std::vector<std::string> table;  ///< What "auto" measured; empty: nothing
  std::string left_out;            ///< The plan's

  mpi::Collectives& first() const { return *lanes.front(); }
  std::vector<int> missing_ranks() const;  ///< Of any lane. Safe from another thread.
  std::string failure() const;             ///< The same; empty: none.
};

class ReducedArray;

/// Collective. Measures where the plan leaves a choice. `array` was made for the plan; the buckets lie in it
/// and hold zeros.
Reduction make_reduction(const AllReducePlan& plan, const mpi::Communicator& world,
                         const mpi::Communicator& host, Device& device, const ReducedArray& array,
                         std::span<const DeviceSpan<float>> buckets);

}  // namespace flotilla
