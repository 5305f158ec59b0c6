// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <memory_resource>
#include <span>
#include <utility>
#include <vector>

#include "kernels/gpu/work.hpp"

namespace flotilla {

/// A recorded list of work that can be launched as a whole (a CUDA graph).
class WorkGraph {
 public:
  virtual ~WorkGraph() = default;
  virtual void launch() = 0;
};

/// Records graphs of work: those of CUDA, or a test's.
class WorkRecorder {
 public:
  virtual ~WorkRecorder() = default;
  /// From here to end() work is recorded in the graph instead of being executed.
  virtual void begin() = 0;
  virtual std::unique_ptr<WorkGraph> end() = 0;
  /// Instead of end(), or after it has thrown: drops what was recorded; work is executed again.
  virtual void abandon() noexcept = 0;
  /// The device array that holds the numbers of a list, and its capacity.
  virtual const std::uint64_t* numbers() const = 0;
  virtual std::size_t room() const = 0;
  /// Copies numbers to that array, ordered before launches from now on.
  virtual void upload(std::span<const std::uint64_t> numbers) = 0;
};

/// Collects a device's work and submits it list by list. Training does the same work on the same memory
/// step after step: a list that comes for the second time is recorded, and from then on launched as one
/// graph. Numbers that change are uploaded separately, before the launch. For one thread.
class WorkList : public WorkQueue {
 public:
  explicit WorkList(WorkRecorder& recorder);
  ~WorkList() override;
  WorkList(const WorkList&) = delete;
  WorkList& operator=(const WorkList&) = delete;

  void put(const Work& work) override;
  void submit() override;
  void before_release() noexcept override;  ///< Drops all graphs too.
  bool recording() const override { return recording_; }

 private:
  struct List {
    explicit List(std::size_t bytes) : room(bytes) {}
    std::vector<std::byte> room;
    std::pmr::monotonic_buffer_resource memory{room.data(), room.size()};
    std::vector<const Work*> works;
    std::unique_ptr<WorkGraph> graph;
    std::int64_t used = 0;  ///< Time of last use: the list with the smallest is evicted first

    void run() const;
    bool same(const List& other) const;
    void clear();
  };

  std::pair<std::uint64_t*, const std::uint64_t*> room_for(std::size_t words) override;
  void hand_over(std::unique_ptr<List> list);
  List* known(const List& list);
  void remember(const List& list);
  void record(List& list);

  WorkRecorder& recorder_;
  std::unique_ptr<List> pending_;
  std::unique_ptr<List> spare_;
  std::vector<std::unique_ptr<List>> known_;
  std::size_t next_ = 0;                ///< Index in known_ after the last list that was found
  std::vector<std::uint64_t> numbers_;  ///< Numbers of the pending work; never moved
  std::size_t taken_ = 0;               ///< Words of numbers_ that belong to work that was added
  std::exception_ptr failure_;          ///< Error of before_release
  std::int64_t clock_ = 0;
  bool recording_ = false;
};

}  // namespace flotilla
