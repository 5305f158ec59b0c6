// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace flotilla {

/// The least of a group's counts. A change costs O(log of the number of different counts).
/// @tparam Less the order of the counts, which tests replace by one that counts its calls
template <class Less = std::less<>>
class LeastCount {
 public:
  void add(std::int64_t count, std::size_t members = 1) { members_[count] += members; }
  /// Takes a member with that count out.
  void remove(std::int64_t count) {
    const auto found = members_.find(count);
    if (--found->second == 0) members_.erase(found);
  }
  /// The largest integer where the group is empty.
  std::int64_t least() const {
    return members_.empty() ? std::numeric_limits<std::int64_t>::max() : members_.begin()->first;
  }

 private:
  std::map<std::int64_t, std::size_t, Less> members_;  ///< Numbers of members by count
};

/// server.max_staleness: holds the answers to workers that are too many pushes ahead of another. Each call
/// costs O(log of the workers), and release() that for each answer.
/// @tparam Less as in LeastCount
template <class Less = std::less<>>
class StalenessBound {
 public:
  /// @param bound number of pushes by which a worker may be ahead; 0: any
  StalenessBound(std::size_t workers, std::int64_t bound)
      : bound_(bound > 0 ? bound : std::numeric_limits<std::int64_t>::max()), workers_(workers) {
    pushes_.add(0, workers);
  }

  /// A push of the worker is complete.
  void count(std::size_t worker) {
    Worker& one = workers_[worker];
    if (one.awaited) pushes_.remove(one.pushes);
    ++one.pushes;
    if (one.awaited) pushes_.add(one.pushes);
  }

  /// Whether others wait for the worker, as they do at first.
  void set_awaited(std::size_t worker, bool awaited) {
    Worker& one = workers_[worker];
    if (std::exchange(one.awaited, awaited) == awaited) return;
    if (awaited)
      pushes_.add(one.pushes);
    else
      pushes_.remove(one.pushes);
  }

  /// Holds the answer to the worker's push, or to the part of it that has come.
  /// @param counted count() has been called for this push
  void hold(std::size_t worker, bool counted) {
    held_.insert({workers_[worker].pushes + (counted ? 0 : 1), worker});
  }

  /// Calls answer(worker) for all held that are not, or no longer, too far ahead.
  template <class Answer>
  void release(Answer&& answer) {
    while (!held_.empty() && held_.begin()->first - bound_ <= pushes_.least())
      answer(held_.extract(held_.begin()).value().second);
  }

 private:
  struct Worker {
    std::int64_t pushes = 0;  ///< Complete pushes
    bool awaited = true;
  };

  std::int64_t bound_;
  std::vector<Worker> workers_;
  LeastCount<Less> pushes_;                                    ///< Pushes of the awaited workers
  std::set<std::pair<std::int64_t, std::size_t>, Less> held_;  ///< Number of the push, worker
};

}  // namespace flotilla
