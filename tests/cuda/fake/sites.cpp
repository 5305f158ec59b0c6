// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/fake/sites.hpp"

#include <execinfo.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <set>
#include <sstream>
#include <string>

/// The address at which the executable starts in memory, defined by the linker.
extern "C" const char __executable_start;  // NOLINT

namespace flotilla::fake {

namespace {

std::string place_of(const void* address) {
  std::ostringstream text;
  text << std::hex
       << reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(&__executable_start);
  return text.str();
}

std::string setting(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::set<std::string> words_of(const std::string& text) {
  std::istringstream from(text);
  std::set<std::string> words;
  for (std::string word; from >> word;) words.insert(word);
  return words;
}

}  // namespace

[[gnu::noinline]] bool left_out(const char* call) {
  static const std::string list = setting("FLOTILLA_FAKE_GPU_SITES");
  static const std::set<std::string> unwanted = words_of(setting("FLOTILLA_FAKE_GPU_LEAVE_OUT"));
  if (list.empty() && unwanted.empty()) return false;
  std::array<void*, 4> frames{};  // this function, CUDA's call, the line, its caller
  if (backtrace(frames.data(), static_cast<int>(frames.size())) < static_cast<int>(frames.size()))
    return false;
  const std::string line = place_of(frames[2]);
  const std::string here = line + ',' + place_of(frames[3]);
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  static std::set<std::string> seen;
  if (!list.empty() && seen.insert(here).second)
    std::ofstream(list, std::ios::app) << call << ' ' << here << '\n';
  return unwanted.contains(line) || unwanted.contains(here);
}

}  // namespace flotilla::fake
