// SPDX-License-Identifier: Apache-2.0
#include "kernels/machine/processors.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla::mpi {
namespace {

using Ids = std::vector<int>;

class Processor : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = folder_.path(path);
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  std::string root() const { return folder_.path(""); }

 private:
  test::TemporaryFolder folder_;
};

TEST(ProcessorList, IsReadAsLinuxWritesIt) {
  EXPECT_EQ(parse_processor_list("0-3,8,10-11\n"), (Ids{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_processor_list("7"), Ids{7});
  EXPECT_EQ(parse_processor_list(""), Ids{});
  for (const char* bad : {"-1", "a", "3-", "3-1", "1,x", "0-99999999", "2147483647", "99999999999999999999"})
    EXPECT_EQ(parse_processor_list(bad), Ids{}) << bad;
}

TEST(Processors, OfThisMachineAreFoundAndStayAsTheyWere) {
  const Processors found = find_processors();
  EXPECT_FALSE(found.own.empty());
  EXPECT_GE(found.allowed, static_cast<int>(found.own.size()));
  EXPECT_EQ(find_processors().own, found.own) << "the mask was changed";
}

TEST_F(Processor, SocketsAndNodesAreThoseOfItsOwn) {
  const Ids own = find_processors().own;
  const int last = own.back();
  write("sys/devices/system/cpu/online", "0-" + std::to_string(last + 2));
  for (int id = 0; id <= last + 2; ++id)
    write("sys/devices/system/cpu/cpu" + std::to_string(id) + "/topology/physical_package_id",
          id <= last ? "0" : "1");
  write("sys/devices/system/node/node0/cpulist", "0-" + std::to_string(last));
  write("sys/devices/system/node/node1/cpulist", std::to_string(last + 1) + "-" + std::to_string(last + 2));
  write("sys/devices/system/node/node2/cpulist", "");  // memory only
  write("proc/driver/nvidia/gpus/0000:07:00.0/information", "");

  const Processors found = find_processors(root());

  EXPECT_EQ(found.sockets, Ids{0});
  EXPECT_EQ(found.host_sockets, 2);
  EXPECT_EQ(found.nodes, Ids{0});
  EXPECT_EQ(found.host_nodes, 2);
  EXPECT_EQ(found.gpus, 1);
  EXPECT_EQ(found.quota, 0.0);
}

TEST_F(Processor, TimeIsTheSmallestLimitOnTheWayUp) {
  write("proc/self/cgroup", "0::/system.slice/job_7/step_0");
  write("sys/fs/cgroup/system.slice/job_7/step_0/cpu.max", "max 100000");
  write("sys/fs/cgroup/system.slice/job_7/cpu.max", "150000 100000");
  write("sys/fs/cgroup/system.slice/cpu.max", "800000 100000");

  const Processors found = find_processors(root());

  EXPECT_TRUE(test::within_double_roundings(found.quota, 1.5, 4));
  EXPECT_TRUE(found.quota_group.ends_with("system.slice/job_7")) << found.quota_group;
}

TEST_F(Processor, TimeOfAContainerUnderVersionOneIsItsOwn) {
  write("proc/self/cgroup", "9:name=systemd:/\n3:cpu,cpuacct:/docker/0123\n0::/");
  write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "250000");
  write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");

  EXPECT_TRUE(test::within_double_roundings(find_processors(root()).quota, 2.5, 4));
}

}  // namespace
}  // namespace flotilla::mpi
