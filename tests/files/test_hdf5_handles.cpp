// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cstddef>
#include <thread>

#include "src/files/hdf5_handles.hpp"

// What becomes of the process where HDF5 crashes.

namespace flotilla::hdf5 {
namespace {

constexpr const char* says =
    "flotilla: 'a.h5' is damaged: HDF5 crashes in it; copy or write it again, or remove it";

void read_what_is_not_there() {
  const void* const page = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static_cast<void>(*static_cast<const volatile char*>(page));
}

/// Calls itself so often that no stack is large enough.
std::size_t use_up_stack(std::size_t calls) {
  std::array<volatile char, 4096> frame{};
  frame[calls % frame.size()] = 1;
  return calls == 0 ? 0 : use_up_stack(calls - 1) + static_cast<std::size_t>(frame[0]);
}

/// Whether a process ended in another way than with a sentence about a damaged file.
bool ended_otherwise(int status) {
  return !WIFEXITED(status) || WEXITSTATUS(status) != exit_user_error;
}

TEST(SessionDeathTest, NamesTheFileThatIsRead) {
  const auto crash = [] {
    const Session session("a.h5");
    { const Session inner; }
    read_what_is_not_there();
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(exit_user_error), says);
}

TEST(SessionDeathTest, NamesItWhereNoStackIsLeft) {
  const auto crash = [] {
    const Session session("a.h5");
    use_up_stack(std::size_t{1} << 40U);
  };
  EXPECT_EXIT(crash(), testing::ExitedWithCode(exit_user_error), says);
  EXPECT_EXIT(std::thread(crash).join(), testing::ExitedWithCode(exit_user_error), says);
}

TEST(SessionDeathTest, SaysNothingOfOtherCrashes) {
  const auto behind_it = [] {
    { const Session session("a.h5"); }
    read_what_is_not_there();
  };
  const auto without_a_file = [] {
    const Session session("a.h5");
    const Session inner;
    read_what_is_not_there();
  };
  const auto sent = [] {
    const Session session("a.h5");
    raise(SIGSEGV);
  };
  EXPECT_EXIT(behind_it(), ended_otherwise, "");
  EXPECT_EXIT(without_a_file(), ended_otherwise, "");
  EXPECT_EXIT(sent(), ended_otherwise, "");
}

}  // namespace
}  // namespace flotilla::hdf5
