// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/strategy/reduce/all_reduce_plan.hpp"
#include "src/train/stage_data.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/train/agreed_failure.hpp"

// What comes before training, with hosts made up.

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using test::failure_of;
using test::mentions;
using test::TemporaryFolder;

/// Places as if each rank were on a host of its own.
std::vector<mpi::Place> apart(const mpi::Communicator& world) {
  std::vector<mpi::Place> places;
  for (int rank = 0; rank < world.size(); ++rank)
    places.push_back({.rank = rank, .host = "h" + std::to_string(rank), .host_index = rank});
  return places;
}

/// Collective. Rank 0's.
std::string shared_path(const mpi::Communicator& world, const TemporaryFolder& folder,
                        const std::string& name) {
  std::string path = folder.path(name);
  world.broadcast(path);
  return path;
}

TEST(SharedFolder, PassesWhereAllHostsSeeItThoughItIsNotThereYet) {
  const auto world = mpi::Communicator::world();
  const TemporaryFolder folder;
  const std::string output = shared_path(world, folder, "runs/of/mine");

  EXPECT_NO_THROW(check_shared_folder(world, apart(world), output, "run.output"));

  EXPECT_TRUE(folder.names().empty()) << "something was left";
  world.barrier();
}

TEST(SharedFolder, NamesTheHostsThatHaveAnother) {
  const auto world = mpi::Communicator::world();
  const TemporaryFolder folder;  // each rank's own
  std::string of_root = folder.path("run");
  world.broadcast(of_root);
  const std::string mine = world.rank() == 1 ? folder.path("run") : of_root;

  const std::string told =
      failure_of([&] { check_shared_folder(world, apart(world), mine, "run.output", 0.3); });

  EXPECT_EQ(told,
            "run.output = " + of_root +
                " is not one folder for all hosts: what rank 0 on h0 writes there is not seen on h1, where "
                "checkpoints and logs would be lost; name a folder on a file system that all hosts share");
  world.barrier();
}

TEST(AgreeByHost, NamesTheHostsThatFailAlone) {
  const auto world = mpi::Communicator::world();
  const auto failing = [&](int lowest) {
    return failure_of([&] {
      agree(world, apart(world), [&] {
        if (world.rank() >= lowest) throw UserError("/data/x: is missing");
      });
    });
  };

  EXPECT_EQ(failing(world.size()), "");
  EXPECT_EQ(failing(0), "/data/x: is missing");
  EXPECT_EQ(failing(world.size() - 1),
            "on h" + std::to_string(world.size() - 1) + ", not on the other hosts: /data/x: is missing");
}

/// What one of these ranks plans on the host that all are on.
AllReducePlan plan_of(const mpi::Communicator& world, const char* word) {
  return plan_all_reduce({.all_reduce = choice<AllReduceWord>(word)}, {.places = mpi::find_topology(world)});
}

constexpr std::size_t terabytes = std::size_t{1} << 40;

TEST(SharedMemoryRoom, IsNotWantedByAutoWhereItIsMissing) {
  const auto world = mpi::Communicator::world();
  AllReducePlan plan = plan_of(world, "auto");
  const auto all = plan.candidates;

  fit_to_shared_memory(plan, true, 1000, world);
  EXPECT_EQ(plan.candidates, all);
  EXPECT_EQ(plan.left_out, "");

  fit_to_shared_memory(plan, true, terabytes, world);
  EXPECT_EQ(plan.candidates, std::vector{&mpi::all_reduce_kind("mpi")});
  EXPECT_FALSE(plan.window);
  const std::string ranks = std::to_string(world.size()) + " ranks on " + mpi::host_name();
  EXPECT_EQ(plan.left_out.find("strategy.all_reduce = \"auto\" does without \"shared-memory\": the " + ranks),
            0)
      << plan.left_out;
}

// This happens with groups of which some have a single rank, which shares no memory.
TEST(SharedMemoryRoom, MissingForOneRankIsToldByAll) {
  const auto world = mpi::Communicator::world();
  AllReducePlan plan = plan_of(world, world.rank() == 1 ? "shared-memory" : "mpi");

  const std::string told = failure_of([&] { fit_to_shared_memory(plan, false, terabytes, world); });

  EXPECT_TRUE(mentions(told, {"ranks on " + mpi::host_name() + " need ", "/dev/shm has "}));
}

TEST(AgreeByHost, NamesTheRankThatFailsBesideOthersOfItsHost) {
  const auto world = mpi::Communicator::world();
  std::vector<mpi::Place> places = apart(world);
  for (mpi::Place& place : places) place.host_index = 0;
  const int last = world.size() - 1;
  const auto failing = [&](int lowest) {
    return [&world, lowest] {
      if (world.rank() >= lowest) throw std::bad_alloc();
    };
  };

  const std::string rank =
      "rank " + std::to_string(last) + " on h" + std::to_string(last) + ": out of memory";
  const std::string all = failure_of([&] { agree(world, places, failing(0)); }, 3);
  EXPECT_EQ(all.find("out of memory"), 0) << all;
  const std::string one = failure_of([&] { agree(world, places, failing(last)); }, 3);
  EXPECT_EQ(one.find(rank), 0) << one;
  const std::string unplaced = failure_of([&] { agree(world, failing(last)); }, 3);
  EXPECT_EQ(unplaced.find("on " + mpi::host_name() + ": out of memory"), 0) << unplaced;
}

class StageData : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    if (world_.is_root()) std::ofstream(path) << text;
    world_.barrier();
  }
  Config config_for(const std::string& data, const std::string& disk) const {
    Config config;
    config.data.kind = DataKind::libsvm;
    config.data.train.given = true;
    config.data.train.path = data;
    config.data.stage_to = disk;
    return config;
  }

  const mpi::Communicator world_ = mpi::Communicator::world();
  const TemporaryFolder folder_;
  mpi::Watchdog watchdog_{0.0, nullptr};
};

TEST_F(StageData, CopiesOnceOnEachHost) {
  const std::string data = shared_path(world_, folder_, "clicks.svm");
  write(data, "1 1:1\n0 2:1\n");
  const Config config = config_for(data, folder_.path("disk"));  // each host's own

  const StagedData first = stage_data(config, world_, apart(world_), watchdog_);
  const StagedData second = stage_data(config, world_, apart(world_), watchdog_);

  EXPECT_EQ(first.facts.hosts, world_.size());
  EXPECT_EQ(first.facts.copying_hosts, world_.size());
  EXPECT_EQ(first.facts.copied_bytes, 12);
  EXPECT_EQ(first.data.train.path, first.facts.folder + data);
  EXPECT_TRUE(fs::exists(first.data.train.path));
  EXPECT_EQ(second.facts.copying_hosts, 0);
  EXPECT_EQ(second.data.train.path, first.data.train.path);
  EXPECT_TRUE(mentions(describe(second.facts), {"1 file, 12 B, in "}));
  world_.barrier();
}

TEST_F(StageData, CopiesOnceForAllRanksOfAHost) {
  const std::string data = shared_path(world_, folder_, "clicks.svm");
  write(data, "1 1:1\n");
  std::vector<mpi::Place> places = apart(world_);
  for (mpi::Place& place : places) place.host_index = 0;

  const std::string disk = shared_path(world_, folder_, "disk");
  EXPECT_EQ(stage_data(config_for(data, disk), world_, places, watchdog_).facts.hosts, 1);
  EXPECT_FALSE(fs::exists(folder_.path("disk")) && !world_.is_root());

  // Separate folders, as in several containers on one host.
  EXPECT_EQ(stage_data(config_for(data, folder_.path("own")), world_, places, watchdog_).facts.hosts,
            world_.size());
  EXPECT_TRUE(fs::exists(folder_.path("own")));
  world_.barrier();
}

TEST_F(StageData, NamesTheHostThatCannot) {
  const std::string data = shared_path(world_, folder_, "clicks.svm");
  write(data, "1 1:1\n");
  const bool cannot = world_.rank() == 1;
  std::ofstream(folder_.path("file")) << "in the way";
  const Config config = config_for(data, folder_.path(cannot ? "file" : "disk"));

  const std::string told = failure_of([&] { stage_data(config, world_, apart(world_), watchdog_); });

  EXPECT_EQ(told.find("on h1, not on the other hosts: "), 0U) << told;
  EXPECT_TRUE(mentions(told, {"this folder cannot be made"}));
  world_.barrier();
}

}  // namespace
}  // namespace flotilla
