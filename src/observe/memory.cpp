// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <string>

#include "src/observe/reporter.hpp"

namespace flotilla {

namespace {

/// A line "VmHWM:   1234 kB" of /proc/self/status, in bytes; 0 if it is not there.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    std::int64_t kilobytes = 0;
    if (word == key && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

}  // namespace

std::int64_t peak_memory_bytes() {
  return status_bytes("VmHWM:");
}
std::int64_t resident_memory_bytes() {
  return status_bytes("VmRSS:");
}

}  // namespace flotilla
