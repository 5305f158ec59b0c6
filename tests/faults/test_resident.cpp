// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "src/checkpoint/resident_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/faults/small_run.hpp"
#include "tests/runs/program.hpp"

// The state that hosts keep in memory: what a run loses whose processes are killed, and when it is not used.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// A run without checkpoints but that of its end, whose steps take 10 ms at least.
Texts slow_run(const std::string& output, const Texts& more = {}) {
  Texts keys = small_run(output, {"checkpoint.every=0", "checkpoint.every_s=0", "train.epochs=100000",
                                  "run.emulate_straggler.rank=0", "run.emulate_straggler.pause_s=0.01"});
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

/// The folder in memory of a run; empty: it keeps none.
std::string folder_in_memory(const std::string& run) {
  const auto record = ResidentRecord::read(run);
  return record ? ResidentFolder(record->id).path() : "";
}

/// The names of the states in a folder.
std::set<std::string> states_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".h5") names.insert(entry.path().filename().string());
  return names;
}

/// Trains until a state is in memory, and kills a rank, −1: all. @returns the folder in memory
std::string kill_run(int ranks, const Texts& keys, const std::string& run, int killed = -1) {
  Program program(flotilla_command(ranks, keys));
  std::string folder;
  EXPECT_TRUE(wait_until([&] {
    folder = folder_in_memory(run);
    return !folder.empty() && !states_in(folder).empty();
  }));
  for (const auto& [rank, process] : present_ranks(program.pid()))
    if (killed < 0 || rank == killed) kill(process, SIGKILL);
  program.wait();
  return folder;
}

std::int64_t step_of(const std::set<std::string>& states) {
  return states.empty() ? -1 : std::stoll(states.rbegin()->substr(5, 8));
}

/// Expects that a run which goes on for 20 steps from `step` ends as one that was never killed.
void expect_goes_on(int ranks, const std::string& run, std::int64_t step, const std::string& undisturbed,
                    const Texts& keys = {}) {
  Texts end = keys;
  end.push_back("train.steps=" + std::to_string(step + 20));
  const Result again = flotilla(ranks, slow_run(run, end));
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(contains(again.output, step == 0 ? "starting at step 0" : "step " + std::to_string(step) + ","))
      << again.output;
  ASSERT_EQ(flotilla(ranks, slow_run(undisturbed, end)).exit_code, 0);
  EXPECT_EQ(final_model(run).values, final_model(undisturbed).values);
  EXPECT_FALSE(fs::exists(run + "/resident"));
}

struct Kill {
  const char* name;
  int ranks;
  int rank;  ///< −1: all of them
  Texts keys{};
};

class KilledRun : public testing::TestWithParam<Kill> {};

const Texts local_sgd = {"strategy.kind=local-sgd", "strategy.period=7", "optimizer.kind=momentum"};
const Texts outer = {"strategy.kind=local-sgd", "strategy.period=5", "strategy.outer.kind=nesterov",
                     "strategy.outer.momentum=0.9"};
const Texts servers = {"strategy.kind=parameter-server", "server.mode=sync", "roles.kind=ratio",
                       "roles.servers=1", "optimizer.kind=momentum"};

INSTANTIATE_TEST_SUITE_P(Ranks, KilledRun,
                         testing::Values(Kill{"alone", 1, 0}, Kill{"root", 4, 0}, Kill{"another", 4, 2},
                                         Kill{"all", 2, -1}, Kill{"local_sgd", 4, 3, local_sgd},
                                         Kill{"outer_steps", 2, -1, outer}, Kill{"servers", 3, 1, servers}),
                         [](const auto& test) { return test.param.name; });

TEST_P(KilledRun, GoesOnFromMemoryWithTheSameBits) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string memory = kill_run(GetParam().ranks, slow_run(run, GetParam().keys), run, GetParam().rank);
  const std::int64_t step = step_of(states_in(memory));
  ASSERT_GT(step, 0);
  expect_goes_on(GetParam().ranks, run, step, folder.path("undisturbed"), GetParam().keys);
  EXPECT_FALSE(fs::exists(memory));
}

/// A run whose rank 0 dies in a call on its state in memory.
class DeathInMemory : public testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(Calls, DeathInMemory,
                         testing::Values("0 memory-write 1", "0 memory-write 30", "0 memory-sync 4",
                                         "0 memory-rename 1", "0 memory-rename 3"));

TEST_P(DeathInMemory, LeavesTheStateBefore) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const Result killed =
      flotilla::test::run(with_library(flotilla_command(2, slow_run(run, {"train.steps=2000"})), DIE_AT_CALL,
                                       {std::string("FLOTILLA_TEST_DIE_AT=") + GetParam()}));
  expect_killed(killed);
  ASSERT_NE(folder_in_memory(run), "");
  std::vector<std::string> damage;
  const auto states = ResidentFolder(ResidentRecord::read(run)->id).states(run, damage);
  EXPECT_TRUE(damage.empty()) << damage.front();  // What has its name is whole.
  expect_goes_on(2, run, states.empty() ? 0 : states.front().step, folder.path("undisturbed"));
}

TEST(Resident, RunThatEndsInOrderLeavesNothing) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  Program program(flotilla_command(2, slow_run(run, {"train.steps=200"})));
  std::string memory;
  ASSERT_TRUE(wait_until([&] { return !states_in(memory = folder_in_memory(run)).empty(); }));
  EXPECT_EQ(fs::status(memory).permissions(), fs::perms::owner_all);
  ASSERT_EQ(program.wait().exit_code, 0);
  EXPECT_FALSE(fs::exists(memory));
  EXPECT_FALSE(fs::exists(run + "/resident"));
}

TEST(Resident, CheckTellsOfItAndChangesNothing) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  Texts keys = slow_run(run, local_sgd);
  const std::string memory = kill_run(2, keys, run);
  const auto states = states_in(memory);
  const auto record = ResidentRecord::read(run);
  keys.emplace_back("--check");
  const Result checked = flotilla(2, keys);
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
  EXPECT_TRUE(
      contains(checked.output, "the state of step " + std::to_string(step_of(states)) + " in the memory"))
      << checked.output;
  EXPECT_TRUE(contains(checked.output, "would be saved as a checkpoint to resume from")) << checked.output;
  EXPECT_EQ(states_in(memory), states);
  EXPECT_EQ(ResidentRecord::read(run)->id, record->id);
  EXPECT_TRUE(states_in(run + "/checkpoints").empty());
}

TEST(Resident, IsLeftAloneWhereTheDeckSaysSo) {
  const TemporaryFolder folder;
  Program program(flotilla_command(2, slow_run(folder.path("run"), {"checkpoint.resident=false"})));
  ASSERT_TRUE(wait_until([&] { return !metrics(folder.path("run"), "step").empty(); }));
  EXPECT_EQ(folder_in_memory(folder.path("run")), "");
}

TEST(Resident, TrueIsRefusedWhereNoStateCanBeKept) {
  const TemporaryFolder folder;
  Texts keys = slow_run(folder.path("run"), servers);
  keys.insert(keys.end(), {"checkpoint.resident=true", "server.mode=half-async", "server.push_every=4"});
  const Result result = flotilla(3, keys);
  expect_told(result, "checkpoint.resident = true");
}

TEST(Resident, DeletedRunStaysDeleted) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string memory = kill_run(2, slow_run(run), run);
  fs::remove_all(run);
  const Result again = flotilla(2, slow_run(run, {"train.steps=3"}));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(losses(run).size(), metrics(run, "step").size());
  EXPECT_FALSE(contains(again.output, "resumed")) << again.output;
  EXPECT_FALSE(fs::exists(memory));  // removed by this start, or by that of another run on this machine
}

TEST(Resident, LeftoverOfARunWhoseNameIsNotUtf8IsRemoved) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path("\xff"));
  const ResidentFolder leftover(ResidentRecord::new_id());
  leftover.make(folder.path("\xff") + "/run");
  const Result result = flotilla(2, slow_run(folder.path("run"), {"train.steps=3"}));
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_FALSE(leftover.is_there());
}

TEST(Resident, IsNotUsedOnceTheCheckpointThatItFollowedIsRemoved) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  ASSERT_EQ(flotilla(2, slow_run(run, {"train.steps=10"})).exit_code, 0);
  fs::copy(run + "/checkpoints", folder.path("kept"));
  ASSERT_EQ(flotilla(2, slow_run(run, {"train.steps=20"})).exit_code, 0);
  kill_run(2, slow_run(run), run);
  fs::remove(run + "/checkpoints/step-00000020.h5");
  const Result again = flotilla(2, slow_run(run, {"train.steps=30"}));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(contains(again.output, "step 10,")) << again.output;
  EXPECT_TRUE(contains(again.output, "the checkpoint of step 20 that it followed was removed"))
      << again.errors;
}

TEST(Resident, IsNotUsedWhereItIsDamaged) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string memory = kill_run(2, slow_run(run), run);
  for (const std::string& name : states_in(memory)) {
    std::fstream file(memory + "/" + name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(40000);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(40000);
    file.put(byte);
  }
  const Result again = flotilla(2, slow_run(run, {"train.steps=3"}));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(contains(again.output, "is damaged and was passed over")) << again.errors;
  EXPECT_FALSE(contains(again.output, "resumed")) << again.output;
}

TEST(Resident, IsNotUsedWhereTheRunIsToStartElsewhere) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  kill_run(2, slow_run(run), run);
  const Result again = flotilla(2, slow_run(run, {"train.steps=3", "run.resume=never"}));
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_TRUE(contains(again.output, "is not used: run.resume = \"never\"")) << again.errors;
}

TEST(Resident, RecordOfAnotherProgramIsRefused) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  ASSERT_EQ(flotilla(1, slow_run(run, {"train.steps=3"})).exit_code, 0);
  for (const char* text : {"", "{}", R"({"id": "../../tmp/precious", "follows": -1, "hosts": []})"}) {
    write_file(run + "/resident", text);
    expect_told(flotilla(1, slow_run(run, {"train.steps=6"})),
                "is not what a training writes there; remove it");
  }
  fs::remove(run + "/resident");
  EXPECT_EQ(flotilla(1, slow_run(run, {"train.steps=6"})).exit_code, 0);
}

TEST(Rescue, SavesTheStateOfAKilledRunOnce) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string memory = kill_run(2, slow_run(run), run);
  const std::int64_t step = step_of(states_in(memory));
  const auto rescue = [&](Texts more) {
    Texts command = flotilla_command(1, {"rescue", run});
    command.insert(command.end(), more.begin(), more.end());
    return flotilla::test::run(command);
  };

  const Result dry = rescue({"--dry-run"});
  EXPECT_EQ(dry.exit_code, 0) << dry.errors;
  EXPECT_TRUE(contains(dry.output, "would be saved")) << dry.output;
  EXPECT_TRUE(fs::exists(memory));
  EXPECT_TRUE(fs::is_empty(run + "/checkpoints"));
  const Result first = rescue({});
  EXPECT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(contains(first.output, "was saved as")) << first.output;
  EXPECT_FALSE(fs::exists(memory));
  EXPECT_TRUE(contains(rescue({}).output, "holds no state"));

  expect_goes_on(2, run, step, folder.path("undisturbed"));
  EXPECT_TRUE(contains(rescue({}).output, "ended in order"));
}

TEST(Rescue, RefusesARunThatGoesOn) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  Program program(flotilla_command(1, slow_run(run)));
  ASSERT_TRUE(wait_until([&] { return !folder_in_memory(run).empty(); }));
  expect_told(flotilla::test::run(flotilla_command(1, {"rescue", run, "--dry-run"})),
              "is in use by another run");
}

TEST(Rescue, TellsOfStatesThatDiffer) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  const std::string memory = kill_run(1, slow_run(run), run);
  const std::string name = *states_in(memory).rbegin();
  // A good checkpoint of the same step with other values, as a host with bad memory would have saved it.
  Snapshot other = read_checkpoint(memory + "/" + name);
  other.values[0] += 1.0F;
  write_checkpoint_file(run + "/checkpoints/" + name, other);

  expect_told(flotilla::test::run(flotilla_command(1, {"rescue", run})), "differ");
  EXPECT_TRUE(fs::exists(memory + "/" + name));
}

}  // namespace
}  // namespace flotilla::test
