// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/device.hpp"
#include "mpi/all_reduce/all_reduce_kind.hpp"
#include "mpi/all_reduce/collectives.hpp"
#include "mpi/all_reduce/emulated_link.hpp"
#include "mpi/core/shared_memory.hpp"
#include "mpi/core/topology.hpp"
#include "src/config/config.hpp"
#include "src/strategy/state_array.hpp"

namespace flotilla {

/// The possible all-reduces of a run, at their site: a function of the deck, the places of its workers and an
/// earlier choice.
struct AllReducePlan : mpi::AllReduceSite {
  std::vector<const mpi::AllReduceKind*> candidates{};  ///< The deck's, or those that "auto" measures
  bool staged = false;      ///< Through a mirror in the host's memory (ReducedArray)
  bool window = false;      ///< The array, or its mirror, must lie in shared memory of the host's ranks
  std::string left_out{};   ///< Algorithms that lack shared memory, and why; empty: none
  bool stochastic = false;  ///< Rounding to a scaled wire
  std::uint64_t seed = 0;   ///< Of its draws
};

/// Facts besides the deck that decide which all-reduces are possible.
struct AllReduceNeeds {
  std::vector<mpi::Place> places;  ///< Places of the workers
  bool shares_memory = true;       ///< The device's memory is the host's
  std::size_t buckets = 1;
  std::string saved{};                       ///< The choice in a checkpoint; empty: none
  mpi::SumOrder order = mpi::SumOrder::any;  ///< The tree where bits must not depend on the number of workers
  /// AllReduceSite::no_nccl (src/job/devices.hpp)
  std::string no_nccl = "needs device.kind = \"cuda\"";
  std::int64_t communicators = 1;
  std::int64_t seed = 0;  ///< run.seed
};

/// @throws UserError if the deck asks for an algorithm that is not possible with these workers or buckets
AllReducePlan plan_all_reduce(const ReductionConfig& deck, const AllReduceNeeds& needs);

/// Collective over `all`, whose ranks have plans made from one deck. Checks that shared memory for a window
/// of `count` floats is free, where the plan has one. If a host has too little, "auto" leaves out algorithms
/// that need windows, on all hosts.
/// @param automatic whether the deck says "auto" @throws AgreedFailure if the deck names an algorithm that
/// needs a window
void fit_to_shared_memory(AllReducePlan& plan, bool automatic, std::size_t count,
                          const mpi::Communicator& all);

class PowerSgd;

/// The all-reduce of a run.
struct Reduction {
  const mpi::AllReduceKind* kind = nullptr;
  std::unique_ptr<mpi::EmulatedLink> link{};             ///< Of the following; null: the real one
  std::vector<std::unique_ptr<mpi::Collectives>> lanes;  ///< One per communicator
  /// All-reduce in float32 for counts, sums and statistics, which another wire would round; null: they are in
  /// the last bucket.
  std::unique_ptr<mpi::Collectives> exact;
  std::unique_ptr<mpi::WireRounding> rounding;  ///< Of a scaled wire between several workers; null: none
  Storage errors;                               ///< rounding->errors, which the next sums add
  std::string description;                      ///< "hierarchical in 2 groups, float16, 2 communicators"
  std::vector<std::string> table;               ///< Measured times of "auto"; empty: none
  std::string left_out;                         ///< AllReducePlan::left_out
  std::shared_ptr<PowerSgd> compression;        ///< Sums later steps in place of the lanes; null: none

  bool rounds() const { return rounding != nullptr; }
  /// Forgets the errors that are left.
  void clear_errors();
  /// The errors of `count` values of the array from `first` on, or those of compression, for the worker's own
  /// part of a checkpoint; empty: none.
  std::vector<StateArray> error_arrays(std::size_t first, std::size_t count);
  mpi::Collectives& first() const { return *lanes.front(); }
  std::vector<int> missing_ranks()
      const;                    ///< Missing ranks of any lane or of compression. Safe from another thread.
  std::string failure() const;  ///< Failure of any lane; empty: none. Safe from another thread.
};

class ReducedArray;

/// Collective. Makes the all-reduce of the plan, chosen by measurement if it has several candidates. `array`
/// was made for the plan; the buckets are parts of it and hold zeros.
Reduction make_reduction(const AllReducePlan& plan, const mpi::Communicator& world,
                         const mpi::Communicator& host, Device& device, const ReducedArray& array,
                         std::span<const DeviceSpan<float>> buckets);

/// A zeroed device array that is summed over ranks: in memory that the host's ranks share where the plan
/// needs that. For a device with memory of its own, shared or pinned host memory mirrors it.
class ReducedArray {
 public:
  ReducedArray() = default;
  /// Collective over `host`, after fit_to_shared_memory() of the plan.
  /// @throws UserError on the ranks of a host whose shared memory others have taken since
  ReducedArray(Device& device, std::size_t count, const AllReducePlan& plan, const mpi::Communicator& host);

  DeviceSpan<float> values() const { return values_; }
  mpi::SharedStorage* window() const { return window_.get(); }  ///< Null: none
  mpi::Mirror mirror() const { return mirror_; }                ///< Empty: none
  std::int64_t device_bytes() const { return static_cast<std::int64_t>(storage_.size() * sizeof(float)); }
  std::int64_t mirror_bytes() const { return static_cast<std::int64_t>(mirror_.host.size_bytes()); }

 private:
  Storage storage_;  ///< Holds values_ unless they are in window_, which the host's ranks share
  std::unique_ptr<mpi::SharedStorage> window_;
  Storage pinned_;  ///< The mirror, or the hold on the window that is one
  DeviceSpan<float> values_;
  mpi::Mirror mirror_;
};

}  // namespace flotilla
