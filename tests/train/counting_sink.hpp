// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/trace.hpp"
#include "tests/support/allocation_count.hpp"

namespace flotilla::test {

/// Counts operator new on the thread that it records, between the first span and the last.
class CountingSink : public trace::Sink {
 public:
  void span(const char*, std::int64_t, std::int64_t) override {
    const std::int64_t now = allocations_of_this_thread();
    if (spans_++ == 0) first_ = now;
    last_ = now;
  }
  std::int64_t allocations() const { return last_ - first_; }
  std::int64_t spans() const { return spans_; }

 private:
  std::atomic<std::int64_t> first_{0};
  std::atomic<std::int64_t> last_{0};
  std::atomic<std::int64_t> spans_{0};
};

}  // namespace flotilla::test
