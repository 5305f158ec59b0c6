// SPDX-License-Identifier: Apache-2.0
#include "tests/faults/fail_at_call.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "tests/support/launched_rank.hpp"

// Loaded into a program before it starts, lets one of its calls fail on one rank.
// FLOTILLA_TEST_FAIL="1 open 7" is rank 1's seventh call that opens a file, "1 open @1f3e" the first that
// comes from this place in the program, "1 open worker-0001" the first about a path with these letters.
// A fourth word is the error of calls on files: EIO (where there is none), ESTALE, ENOSPC, or "short": the
// call transfers half of what it was asked to. FLOTILLA_TEST_FIRED=FILE: the file gets a line when that
// happened. FLOTILLA_TEST_CALLS=FOLDER: each rank writes FOLDER/rank-N, a line for each call: its word, its
// number among the calls of that word, the place that it came from (a hash of its callers), the innermost
// caller, and what it was about. Only calls made by the program itself count, also those through libstdc++,
// HDF5 and oneDNN (but not its mmap, whose failure it does not survive); not those inside MPI, and none on
// files of /proc and /sys. Allocations count from 32 KiB on.

namespace {

constexpr std::size_t large = 32 * 1024;
constexpr std::array words = {"open", "list", "stat", "make",   "rename", "remove",       "write",  "read",
                              "sync", "room", "map",  "memory", "thread", "communicator", "message"};
constexpr std::array libraries = {"libstdc++", "libhdf5", "libdnnl"};

struct Module {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

struct State {
  std::array<char, 16> word{};
  std::array<char, 8> error{'E', 'I', 'O'};
  int number = 0;                ///< 0: not by number
  std::uint64_t place = 0;       ///< 0: not by place
  std::array<char, 32> about{};  ///< Empty: not by what it is about
  std::atomic<bool> done = false;
  int calls = -1;  ///< Descriptor of the list of calls
  const char* fired = nullptr;
  std::array<Module, 8> modules{};  ///< The first is the program
  std::size_t module_count = 0;
  std::array<std::atomic<int>, words.size()> counts{};
};

__attribute__((tls_model("initial-exec"))) thread_local bool inside = false;

int add_module(dl_phdr_info* info, std::size_t, void* to) {
  auto& state = *static_cast<State*>(to);
  bool counts = state.module_count == 0;  // the program comes first
  for (const char* const library : libraries)
    counts = counts || std::strstr(info->dlpi_name, library) != nullptr;
  if (!counts || state.module_count == state.modules.size()) return 0;
  Module module{.begin = UINTPTR_MAX, .end = 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    module = {.begin = begin < module.begin ? begin : module.begin,
              .end = begin + segment.p_memsz > module.end ? begin + segment.p_memsz : module.end};
  }
  state.modules[state.module_count++] = module;
  return 0;
}

/// The state lies in memory that is never freed: calls are made before and after the lifetime of static
/// objects.
State& state() {
  static std::array<std::byte, sizeof(State)> room alignas(State);
  static State* const made = [] {
    auto* const made_now = new (room.data()) State;
    const char* rank = flotilla::test::launched_rank();
    if (rank == nullptr) return made_now;
    dl_iterate_phdr(add_module, made_now);
    int where = -1;
    decltype(State::about) which{};
    const char* fail = std::getenv("FLOTILLA_TEST_FAIL");
    if (fail != nullptr &&
        std::sscanf(fail, "%d %15s %31s %7s", &where, made_now->word.data(), which.data(),
                    made_now->error.data()) >= 3 &&
        where == std::atoi(rank)) {
      if (which[0] == '@')
        made_now->place = std::strtoull(which.data() + 1, nullptr, 16);
      else if (which[0] >= '0' && which[0] <= '9')
        made_now->number = std::atoi(which.data());
      else
        made_now->about = which;
    }
    made_now->fired = std::getenv("FLOTILLA_TEST_FIRED");
    if (const char* folder = std::getenv("FLOTILLA_TEST_CALLS"); folder != nullptr) {
      std::array<char, 4096> path{};
      std::snprintf(path.data(), path.size(), "%s/rank-%s", folder, rank);
      made_now->calls = static_cast<int>(
          syscall(SYS_openat, AT_FDCWD, path.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    }
    return made_now;
  }();
  return *made;
}

struct Walk {
  const Module& program;
  std::uint64_t hash = 14695981039346656037U;
  int left = 10;
  std::uintptr_t innermost = 0;
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* to) {
  auto& walk = *static_cast<Walk*>(to);
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (address < walk.program.begin || address >= walk.program.end) return _URC_NO_REASON;
  const std::uintptr_t place = address - walk.program.begin;
  if (walk.innermost == 0) walk.innermost = place;
  walk.hash = (walk.hash ^ place) * 1099511628211U;
  return --walk.left > 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/// The place in the program that this call comes from.
Walk walk_from_here(const State& state) {
  Walk walk{.program = state.modules[0]};
  _Unwind_Backtrace(add_frame, &walk);
  return walk;
}

void list_call(const State& state, const char* word, int number, const char* about) {
  const Walk walk = walk_from_here(state);
  std::array<char, 512> line{};
  const int length = std::snprintf(line.data(), line.size(), "%s %d %llx %llx %s\n", word, number,
                                   static_cast<unsigned long long>(walk.hash),
                                   static_cast<unsigned long long>(walk.innermost), about);
  const int all = length < static_cast<int>(line.size()) ? length : static_cast<int>(line.size()) - 1;
  syscall(SYS_write, state.calls, line.data(), all);
}

/// Once.
bool is_asked_for(State& state, const char* word, int number, const char* about) {
  if (std::strcmp(state.word.data(), word) != 0 || state.done) return false;
  const bool by_place = state.place != 0 && walk_from_here(state).hash == state.place;
  const bool by_about = state.about[0] != '\0' && std::strstr(about, state.about.data()) != nullptr;
  return (by_place || by_about || number == state.number) && !state.done.exchange(true);
}

void note_fired(const State& state, const char* word, int number, const char* about) {
  if (state.fired == nullptr) return;
  const auto file =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, state.fired, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  std::array<char, 512> line{};
  const int length = std::snprintf(line.data(), line.size(), "%s %d %s\n", word, number, about);
  syscall(SYS_write, file, line.data(), length);
  syscall(SYS_close, file);
}

bool is_in(const Module& module, const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  return address >= module.begin && address < module.end;
}

bool counts_as_ours(const State& state, const void* caller) {
  for (std::size_t i = 0; i < state.module_count; ++i)
    if (is_in(state.modules[i], caller)) return true;
  return false;
}

}  // namespace

bool flotilla::test::fails(const char* word, const void* caller, const char* about) {
  if (inside) return false;
  inside = true;
  bool asked_for = false;
  State& now = state();
  if (counts_as_ours(now, caller)) {
    std::size_t index = 0;
    while (std::strcmp(words[index], word) != 0) ++index;
    const int number = ++now.counts[index];
    if (now.calls >= 0) list_call(now, word, number, about);
    asked_for = is_asked_for(now, word, number, about);
    if (asked_for) note_fired(now, word, number, about);
  }
  inside = false;
  return asked_for;
}

int flotilla::test::error_of_failure() {
  const std::string_view error = state().error.data();
  return error == "short" ? 0 : error == "ESTALE" ? ESTALE : error == "ENOSPC" ? ENOSPC : EIO;
}

void* flotilla::test::next_function(const char* name) {
  inside = true;
  void* const found = dlsym(RTLD_NEXT, name);
  inside = false;
  return found;
}

namespace {

using flotilla::test::fails;
using flotilla::test::next;

bool allocation_fails(std::size_t bytes, const void* caller) {
  if (bytes < large || inside) return false;
  std::array<char, 32> about{};
  std::snprintf(about.data(), about.size(), "%zu bytes", bytes);
  return fails("memory", caller, about.data());
}

}  // namespace

extern "C" {

void* mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) noexcept {
  const void* const caller = __builtin_return_address(0);
  if (is_in(state().modules[0], caller) && fails("map", caller, "")) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return reinterpret_cast<void*>(syscall(SYS_mmap, address, length, protection, flags, file, offset));
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  static const auto real = next<int (*)(void**, size_t, size_t)>("posix_memalign");
  return allocation_fails(bytes, __builtin_return_address(0)) ? ENOMEM : real(memory, alignment, bytes);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                   void* argument) noexcept {
  static const auto real =
      next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
  if (fails("thread", __builtin_return_address(0), "")) return EAGAIN;
  return real(thread, attributes, run, argument);
}

}  // extern "C"

void* operator new(std::size_t bytes) {
  static const auto real = next<void* (*)(std::size_t)>("_Znwm");
  if (allocation_fails(bytes, __builtin_return_address(0))) throw std::bad_alloc();
  return real(bytes);
}

void* operator new(std::size_t bytes, std::align_val_t alignment) {
  static const auto real = next<void* (*)(std::size_t, std::align_val_t)>("_ZnwmSt11align_val_t");
  if (allocation_fails(bytes, __builtin_return_address(0))) throw std::bad_alloc();
  return real(bytes, alignment);
}
