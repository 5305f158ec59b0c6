// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/faults/small_run.hpp"

// Ranks of one host that are in containers of their own: what they share is tested, not taken for granted.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

/// A training on 2 ranks, each in namespaces of its own in which `prepare` runs first, for a shell.
Texts in_containers(const Texts& namespaces, const std::string& prepare, const Texts& arguments) {
  Texts command = flotilla_command(2, arguments);
  Texts unshare = {"unshare"};
  unshare.insert(unshare.end(), namespaces.begin(), namespaces.end());
  // The shell stays, so that the program is not the first process of its namespace.
  for (const std::string& word :
       {std::string("sh"), std::string("-c"), prepare + "\"$@\"; exit $?", std::string("sh")})
    unshare.push_back(word);
  command.insert(std::ranges::find(command, std::string(FLOTILLA_EXECUTABLE)), unshare.begin(),
                 unshare.end());
  return command;
}

Texts with_own_disk(const std::string& folder, const Texts& arguments) {
  return in_containers({"--mount"}, "mount -t tmpfs tmpfs " + folder + " && ", arguments);
}

class Containers : public testing::Test {
 protected:
  void SetUp() override {
    if (run({"unshare", "--mount", "--pid", "--fork", "true"}).exit_code == 0) return;
    const char* const required = std::getenv("FLOTILLA_CLUSTER_TESTS");  // as tests/hosts/needs.sh
    ASSERT_FALSE(required != nullptr && required == std::string("required")) << "no namespaces";
    GTEST_SKIP() << "this user may not make namespaces";
  }
  Texts training(const Texts& more) const {
    Texts all = {"train.steps=2", "checkpoint.every=0", "data.validation.images=", "data.validation.labels="};
    all.insert(all.end(), more.begin(), more.end());
    return small_run(folder_.path("run"), all);
  }
  static bool is_open_mpi_4() { return contains(run({"mpirun", "--version"}).output, "(Open MPI) 4."); }

  TemporaryFolder folder_;
};

TEST_F(Containers, WithoutSharedMemoryAutoTakesMpiAndSaysSo) {
  const Result result = run(with_own_disk("/dev/shm", training({"--verbose"})));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.errors, "does without \"shared-memory\": the 2 ranks on ")) << result.errors;
  EXPECT_TRUE(contains(result.errors, "is not there for another")) << result.errors;
  EXPECT_TRUE(contains(result.output, "all-reduce   mpi, ")) << result.output;
}

TEST_F(Containers, WithoutSharedMemoryWhatNeedsItIsRefused) {
  for (const std::string word : {"shared-memory", "hierarchical"}) {
    const Result result = run(with_own_disk("/dev/shm", training({"strategy.all_reduce=" + word})));
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_TRUE(contains(result.errors, "flotilla: the 2 ranks on ")) << result.errors;
    EXPECT_TRUE(contains(result.errors, "or set strategy.all_reduce = \"mpi\"")) << result.errors;
  }
}

TEST_F(Containers, WithoutSharedMemoryServersSendTheirValues) {
  const Result result = run(with_own_disk(
      "/dev/shm", training({"strategy.kind=parameter-server", "roles.kind=ratio", "roles.servers=1"})));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.errors, "server.shared_memory: not used, because the 2 ranks on "), 1)
      << result.errors;
}

TEST_F(Containers, ReadOnlySharedMemoryHoldsNoState) {
  for (const auto& [resident, exit_code] : {std::pair("auto", 0), std::pair("true", 2)}) {
    const Result result = run(in_containers({"--mount"}, "mount -t tmpfs -o ro tmpfs /dev/shm && ",
                                            training({std::string("checkpoint.resident=") + resident})));
    EXPECT_EQ(result.exit_code, exit_code) << result.errors;
    EXPECT_TRUE(contains(result.output + result.errors, ": /dev/shm: Read-only file system"))
        << result.output << result.errors;
  }
}

TEST_F(Containers, EachCopiesDataToItsOwnDisk) {
  const std::string disk = folder_.path("disk");
  std::filesystem::create_directory(disk);

  const Result result = run(with_own_disk(disk, training({"data.stage_to=" + disk})));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.errors, "is another folder for 1 rank than for the first of the host"), 1)
      << result.errors;
  EXPECT_TRUE(contains(result.output, "2 files, ")) << result.output;
}

TEST_F(Containers, AnOutputOfEachRankIsRefused) {
  std::filesystem::create_directory(folder_.path("own"));

  const Result result =
      run(with_own_disk(folder_.path("own"), training({"run.output=" + folder_.path("own/run")})));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_TRUE(contains(result.errors, "own/run is not one folder for all ranks: what rank 0 on "))
      << result.errors;
  EXPECT_TRUE(contains(result.errors, " is not seen on rank 1 on ")) << result.errors;
}

// Open MPI 4 takes a process with its own id for itself, and copies from any other by its id.
TEST_F(Containers, ProcessIdsOfTheirOwnAreRefusedUnlessNothingIsCopiedByThem) {
  if (!is_open_mpi_4()) GTEST_SKIP() << "needs Open MPI 4";
  const Texts own_ids = {"--pid", "--fork", "--mount-proc"};

  const Result equal = run(in_containers(own_ids, "", training({})));
  EXPECT_EQ(equal.exit_code, 2) << equal.errors;
  EXPECT_TRUE(contains(equal.errors, "flotilla: MPI crashed in the first message between ranks."))
      << equal.errors;

  const std::string others = "for i in 1 2 3; do [ $OMPI_COMM_WORLD_RANK = 0 ] || /bin/true; done; ";
  const Texts command = in_containers(own_ids, others, training({}));
  const Result different = run(command);
  EXPECT_EQ(different.exit_code, 2) << different.errors;
  EXPECT_TRUE(contains(different.errors, " see different process ids, as in containers of their own"))
      << different.errors;

  const Result without = run(in_environment({"OMPI_MCA_btl_vader_single_copy_mechanism=none"}, command));
  EXPECT_EQ(without.exit_code, 0) << without.errors;
}

}  // namespace
}  // namespace flotilla::test
