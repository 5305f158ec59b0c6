// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "mpi/all_reduce/messages.hpp"
#include "mpi/all_reduce/sum_tree.hpp"
#include "mpi/core/environment.hpp"

namespace flotilla::mpi {

/// Takes the steps of sums over ranks: sends and receives their slices, adds and rounds them. Its memory
/// grows to what the largest array needs.
class SliceExchange {
 public:
  using MakeSteps = std::function<std::vector<SumStep>(std::size_t count)>;

  /// Collective: makes its own communicator. @param make_steps of this rank, for an array of `count` values
  SliceExchange(const Communicator& group, MakeSteps make_steps);

  int ranks() const { return messages_.group().size(); }
  /// Made once for each length; a run has few. From any thread.
  std::span<const SumStep> steps(std::size_t count) const;
  /// Collective. @param steps some of those for as many values as `data` has @param kind a literal
  void take(std::span<const SumStep> steps, std::span<float> data, const char* kind, const CallSite& at);
  std::size_t sent_bytes(std::size_t count) const;                              ///< By this rank in all steps
  std::vector<int> missing_ranks() const { return messages_.missing_ranks(); }  ///< Safe from another thread.

 private:
  void take(const SumStep& step, std::span<float> data);
  std::byte* encoded(SliceBounds slice, Wire wire, std::span<float> data);
  std::size_t own_place(const SumStep& step) const;
  void add(const SumStep& step, std::span<float> data);
  void decode_and_add_up(const SumStep& step, std::span<float> data) const;

  Messages messages_;
  MakeSteps make_steps_;
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::vector<SumStep>> steps_;  ///< By the length of the array
  std::vector<std::byte> outgoing_;                            ///< An array, encoded
  std::vector<std::byte> incoming_;
  std::vector<const float*> arrays_;  ///< What is added, in its order
};

using SliceExchangeHandle = std::unique_ptr<SliceExchange, LeaveWhileThrowing<SliceExchange>>;

}  // namespace flotilla::mpi
