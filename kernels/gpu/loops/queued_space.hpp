// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gpu/loops/launch.hpp"
#include "kernels/gpu/work.hpp"

namespace flotilla::loops {

/// An execution space whose kernels are added to a queue of work, if there is one, and start when that is
/// submitted (CUDA graphs). Kernels that were added keep the address of the space.
template <class Base>
class QueuedSpace : public Base {
 public:
  /// @param queue Null: kernels start at once.
  QueuedSpace(const Base& base, WorkQueue* queue) : Base(base), queue_(queue) {}
  WorkQueue* queue() const { return queue_; }
  void submit() const {
    if (queue_ != nullptr) queue_->submit();
  }

 private:
  WorkQueue* queue_;
};

/// A kernel in a queue.
template <class Base, class Launch>
class QueuedLaunch final : public Work {
 public:
  QueuedLaunch(const QueuedSpace<Base>& space, const Launch& launch) : space_(&space), launch_(launch) {}
  void run() const override { Queue<Base>::put(*space_, launch_); }
  bool same(const Work& other) const override {
    const auto* const like = dynamic_cast<const QueuedLaunch*>(&other);
    return like != nullptr && space_ == like->space_ && launch_ == like->launch_;
  }
  const Work* copy_to(std::pmr::memory_resource& memory) const override {
    return new (memory.allocate(sizeof(QueuedLaunch), alignof(QueuedLaunch))) QueuedLaunch(*this);
  }

 private:
  const QueuedSpace<Base>* space_;
  Launch launch_;
};

template <class Base>
struct Queue<QueuedSpace<Base>> {
  using Space = QueuedSpace<Base>;

  template <class Launch>
  static void put(const Space& space, const Launch& launch) {
    if (space.queue() == nullptr) return Queue<Base>::put(space, launch);
    space.queue()->put(QueuedLaunch<Base, Launch>(space, launch));
  }
  template <class T>
  static const T* late_number(const Space& space, const T& number) {
    return space.queue() == nullptr ? nullptr : space.queue()->number(number);
  }
  static void upload(const Space& space, const void* from, void* to, std::size_t bytes) {
    space.submit();
    Queue<Base>::upload(space, from, to, bytes);
  }
  static void download(const Space& space, const void* from, void* to, std::size_t bytes) {
    space.submit();
    Queue<Base>::download(space, from, to, bytes);
  }
  static void wait(const Space& space) {
    space.submit();
    Queue<Base>::wait(space);
  }
};

template <class Base>
struct Order<QueuedSpace<Base>> : Order<Base> {};

}  // namespace flotilla::loops
