// SPDX-License-Identifier: Apache-2.0
#include "mpi/start/gpu_binding.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"

namespace flotilla::mpi {
namespace {

TEST(GpuView, IsWhatTheLauncherShowsWithTheProcessorsNextToIt) {
  const test::TemporaryFolder root;
  const std::string folder = root.path() + "/sys/bus/pci/devices/0000:3b:00.0";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/local_cpulist") << "0-3,8\n";

  const GpuView view =
      look_at_gpus({{.name = "A", .pci_id = "0000:3b:00.0"}, {.name = "B", .pci_id = "x"}}, root.path());

  ASSERT_EQ(view.gpus.size(), 2U);
  EXPECT_EQ(view.gpus[0].near, (std::vector{0, 1, 2, 3, 8}));
  EXPECT_EQ(view.gpus[1], (GpuView::Gpu{.name = "B", .pci_id = "x"}));
  EXPECT_FALSE(view.own.empty());
}

TEST(GpuView, OfEveryRankReachesAll) {
  const Communicator world = Communicator::world();
  const auto of_rank = [](int rank) {
    GpuView view{.own = {rank, rank + 2}};
    for (int gpu = 0; gpu < rank; ++gpu)
      view.gpus.push_back({.name = "NVIDIA A100", .pci_id = std::to_string(gpu), .near = {gpu, 7}});
    if (rank == 2) view.gpus[0].near.clear();
    return view;
  };

  const std::vector<GpuView> all = all_gather(world, of_rank(world.rank()));

  ASSERT_EQ(all.size(), static_cast<std::size_t>(world.size()));
  for (int rank = 0; rank < world.size(); ++rank)
    EXPECT_EQ(all[static_cast<std::size_t>(rank)], of_rank(rank));
}

}  // namespace
}  // namespace flotilla::mpi
