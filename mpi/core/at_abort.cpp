// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/at_abort.hpp"

#include <mutex>
#include <utility>

namespace flotilla::mpi {

namespace {

std::mutex mutex;
AtAbort* newest = nullptr;  // under mutex

}  // namespace

AtAbort::AtAbort(std::function<void()> work) : work_(std::move(work)) {
  const std::lock_guard lock(mutex);
  next_ = std::exchange(newest, this);
}

AtAbort::~AtAbort() {
  const std::lock_guard lock(mutex);
  AtAbort** link = &newest;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

void AtAbort::run_all() {
  const std::lock_guard lock(mutex);
  for (AtAbort* entry = newest; entry != nullptr; entry = entry->next_) entry->work_();
}

}  // namespace flotilla::mpi
