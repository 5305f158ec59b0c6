// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

constexpr std::int64_t kibi = 1024;

/// A machine with 1,000,000 KiB free.
class AvailableMemory : public ::testing::Test {
 protected:
  AvailableMemory() {
    write("proc/meminfo",
          "MemTotal:  2000000 kB\nMemFree:   500000 kB\nMemAvailable:  1000000 kB\nBuffers: 1 kB\n");
  }
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_.path(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void group(const std::string& folder, const std::string& limit, const std::string& usage) const {
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", usage + "\n");
  }
  std::string path() const { return root_.path(); }
  std::int64_t available() const { return available_memory_bytes(root_.path()); }

 private:
  test::TemporaryFolder root_;
};

TEST_F(AvailableMemory, IsWhatTheKernelReports) {
  EXPECT_EQ(available(), 1'000'000 * kibi);
}

TEST_F(AvailableMemory, IsWhatAControlGroupLeaves) {
  write("proc/self/cgroup", "0::/job/step\n");
  group("sys/fs/cgroup/job/step", "300000", "100000");
  group("sys/fs/cgroup/job", "max", "100000");

  EXPECT_EQ(available(), 200'000);
}

TEST_F(AvailableMemory, IsTheLeastOfAllGroupsAbove) {
  write("proc/self/cgroup", "0::/job/step\n");
  group("sys/fs/cgroup/job/step", "900000", "100000");
  group("sys/fs/cgroup/job", "500000", "450000");
  group("sys/fs/cgroup", "700000", "100000");

  EXPECT_EQ(available(), 50'000);
}

TEST_F(AvailableMemory, CountsFileCacheThatCanBeDropped) {
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "300000", "250000");
  write("sys/fs/cgroup/job/memory.stat", "anon 1\nfile 200000\ninactive_file 120000\nactive_file 80000\n");

  EXPECT_EQ(available(), 170'000);
}

TEST_F(AvailableMemory, IsNoneInAGroupThatIsFull) {
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "300000", "310000");

  EXPECT_EQ(available(), 0);
}

TEST_F(AvailableMemory, IsNotLimitedByAGroupWithoutALimit) {
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "max", "310000");

  EXPECT_EQ(available(), 1'000'000 * kibi);
}

TEST_F(AvailableMemory, KnowsAContainersGroupAsTheRoot) {
  write("proc/self/cgroup", "0::/\n");
  group("sys/fs/cgroup", "300000", "100000");

  EXPECT_EQ(available(), 200'000);
}

TEST_F(AvailableMemory, KnowsVersion1WhoseContainersSeeTheHostsPaths) {
  write("proc/self/cgroup",
        "12:pids:/docker/abc\n4:cpu,memory:/docker/abc\n1:name=systemd:/docker/abc\n0::/system\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "150000\n");
  write("sys/fs/cgroup/memory/memory.stat", "cache 9\ninactive_file 1\ntotal_inactive_file 50000\n");

  EXPECT_EQ(available(), 300'000);
}

TEST_F(AvailableMemory, TakesVersion1sLargestLimitForNone) {
  write("proc/self/cgroup", "4:memory:/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "150000\n");

  EXPECT_EQ(available(), 1'000'000 * kibi);
}

class LimitOfMemory : public AvailableMemory {
 protected:
  MemoryLimit limit() const { return memory_limit(path()); }
};

TEST_F(LimitOfMemory, IsTheMachinesWithItsSwapWithoutGroups) {
  write("proc/meminfo", "MemTotal:  2000000 kB\nMemAvailable:  1000 kB\nSwapTotal:  500000 kB\n");

  EXPECT_EQ(limit().group, "");
  EXPECT_EQ(limit().bytes, 2'500'000 * kibi);
  EXPECT_EQ(limit().left, 2'500'000 * kibi);
}

TEST_F(LimitOfMemory, IsThatOfTheGroupThatLeavesLeast) {
  write("proc/self/cgroup", "0::/job/step\n");
  group("sys/fs/cgroup/job/step", "900000", "100000");
  group("sys/fs/cgroup/job", "500000", "450000");
  group("sys/fs/cgroup", "max", "100000");

  EXPECT_EQ(limit().group, path() + "/sys/fs/cgroup/job");
  EXPECT_EQ(limit().bytes, 500'000);
  EXPECT_EQ(limit().left, 50'000);
  EXPECT_FALSE(limit().identity.empty());
}

TEST_F(LimitOfMemory, CountsNoFileCacheAsUsed) {
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "300000", "250000");
  write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 120000\nactive_file 80000\nshmem 5\n");

  EXPECT_EQ(limit().left, 250'000);
}

TEST_F(LimitOfMemory, KnowsVersion1) {
  write("proc/self/cgroup", "4:memory:/job\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "400000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "150000\n");
  write("sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 50000\ntotal_active_file 20000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");

  EXPECT_EQ(limit().bytes, 400'000);
  EXPECT_EQ(limit().left, 320'000);
}

TEST_F(LimitOfMemory, IsComparedWithWhatIsWanted) {
  write("proc/self/cgroup", "0::/job\n");
  group("sys/fs/cgroup/job", "157286400", "52428800");

  EXPECT_NO_THROW(require_memory(limit(), 100 << 20, "arrays"));
  const std::string text = test::error_of([&] { require_memory(limit(), 101 << 20, "arrays"); });
  EXPECT_EQ(text.find("out of memory: arrays take 101 MiB more, and do not fit into the control group " +
                      path() + "/sys/fs/cgroup/job, which allows 150 MiB and leaves 100 MiB; "),
            0U)
      << text;
}

TEST(AvailableMemoryOfThisMachine, IsSomething) {
  EXPECT_GT(available_memory_bytes(), 0);
}

TEST(OutOfMemory, SaysHowLargeTheArrayWas) {
  const OutOfMemory error(std::size_t{3} << 30);

  EXPECT_EQ(exit_code_of(error), exit_library_error);
  EXPECT_EQ(text_of(error).find("out of memory: there is no room for an array of 3072 MiB; "), 0U);
}

}  // namespace
}  // namespace flotilla
