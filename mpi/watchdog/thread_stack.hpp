// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

#include <string>

namespace flotilla::mpi {

/// Prints the call stack of the thread that made it, whatever that thread waits for: a hang inside a library
/// shows in no other way. Uses SIGURG, which processes ignore unless they handle it; one object at a time.
class ThreadStack {
 public:
  ThreadStack();
  ThreadStack(const ThreadStack&) = delete;
  ThreadStack& operator=(const ThreadStack&) = delete;
  ~ThreadStack();

  /// Called by another thread: writes `head` and the stack to stderr. Returns after at most half a second.
  void print(const std::string& head) const;

 private:
  pthread_t thread_ = pthread_self();
};

}  // namespace flotilla::mpi
