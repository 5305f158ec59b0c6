// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "kernels/error.hpp"
#include "src/files/run_lock.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {

/// What flock fails with; 0: the system's own.
int flock_error = 0;

}  // namespace

extern "C" int flock(int descriptor, int operation) noexcept {
  if (flock_error == 0) return static_cast<int>(::syscall(SYS_flock, descriptor, operation));
  errno = flock_error;
  return -1;
}

namespace flotilla {

TEST(RunLock, KeepsASecondRunOut) {
  const test::TemporaryFolder folder;
  const RunLock first(folder.path());

  EXPECT_EQ(first.warning(), "");
  EXPECT_THROW(RunLock{folder.path()}, UserError);
}

TEST(RunLock, SaysSoWhereTheFileSystemHasNoLocks) {
  const test::TemporaryFolder folder;
  for (const int error : {ENOLCK, EOPNOTSUPP, ENOSYS}) {
    flock_error = error;
    const RunLock lock(folder.path());
    flock_error = 0;

    EXPECT_TRUE(lock.warning().starts_with("cannot lock " + folder.path() + "/.lock (")) << lock.warning();
    EXPECT_NE(lock.warning().find("a second run in this folder would not be noticed"), std::string::npos)
        << lock.warning();
  }
}

TEST(RunLock, SaysSoWhereItsFileCannotBeOpened) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path(".lock"));

  EXPECT_NE(RunLock(folder.path()).warning(), "");
}

}  // namespace flotilla
