// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace flotilla {

/// Runs work(0) … work(count − 1) on threads; the calling thread calls report() meanwhile, ten times a
/// second and at the end.
/// @throws what was thrown first, by report() or the start of a thread too, when all threads have ended
template <class Work, class Report>
void run_on_threads(std::size_t count, int threads, const Work& work, const Report& report) {
  constexpr std::chrono::milliseconds between_reports{100};
  std::atomic<std::size_t> next{0};
  std::atomic<int> running{threads};
  std::mutex mutex;
  std::exception_ptr failure;  // under mutex
  const auto fail = [&] {
    next = count;
    const std::lock_guard lock(mutex);
    if (!failure) failure = std::current_exception();
  };
  std::vector<std::thread> pool;
  try {
    for (int thread = 0; thread < threads; ++thread)
      pool.emplace_back([&] {
        try {
          for (std::size_t i = next++; i < count; i = next++) work(i);
        } catch (...) {
          fail();
        }
        --running;
      });
    auto reported = std::chrono::steady_clock::now();
    while (running > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (std::chrono::steady_clock::now() - reported < between_reports) continue;
      reported = std::chrono::steady_clock::now();
      report();
    }
  } catch (...) {
    fail();
  }
  for (std::thread& thread : pool) thread.join();
  if (failure) std::rethrow_exception(failure);
  report();
}

}  // namespace flotilla
