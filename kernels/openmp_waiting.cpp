// SPDX-License-Identifier: Apache-2.0
#include "kernels/openmp_waiting.hpp"

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "kernels/processor/pause.hpp"
#include "kernels/threads.hpp"

namespace flotilla {

namespace {

/// Longer than the gaps between the operations of a step and than the skew between threads of one operation
/// that have a core each; much shorter than a time slice of the scheduler, some milliseconds.
constexpr double longest_spin_us = 50.0;

/// Rounds of a waiting loop of GNU OpenMP, a look and a pause each, in so much time; measured, at least 1. A
/// pause takes 10 to 140 cycles of an x86-64, whose makers differ.
long pauses_in(double microseconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int rounds = 200;
  double min_us = 1e9;
  for (int attempt = 0; attempt < 3; ++attempt) {  // the first may have been interrupted
    const Clock::time_point begin = Clock::now();
    for (int round = 0; round < rounds; ++round) spin_pause();
    const std::chrono::duration<double, std::micro> took = Clock::now() - begin;
    min_us = std::min(min_us, took.count());
  }
  return static_cast<long>(std::max(1.0, microseconds * rounds / std::max(min_us, 1e-3)));
}

}  // namespace

std::string restart_with_short_spins(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr) return {};
  // If this is 0, /proc/self/exe is the loader, which would take our first argument for the program.
  if (getauxval(AT_BASE) == 0) return "the program was started through the dynamic loader";
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return error.message() + " (/proc/self/exe)";
  const std::string count = std::to_string(pauses_in(longest_spin_us));
  if (setenv("GOMP_SPINCOUNT", count.c_str(), 1) != 0) return std::strerror(errno);
  execv(program.c_str(), argv);
  return std::strerror(errno);
}

std::vector<std::int64_t> computing_threads(int threads) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(threads));
  in_parts(threads, threads, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i) ids[static_cast<std::size_t>(i)] = syscall(SYS_gettid);
  });
  return ids;
}

}  // namespace flotilla
