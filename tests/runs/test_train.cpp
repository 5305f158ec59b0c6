// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Trainings driven as a user drives them.

namespace flotilla::test {
namespace {

const std::string deck = source_path("inputs/mnist_mlp.toml");

std::vector<std::string> short_run(const TemporaryFolder& folder, const std::string& name,
                                   const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {"train",
                                        deck,
                                        "run.output=" + folder.path(name),
                                        "device.threads=1",
                                        "train.global_batch_size=64",
                                        "run.log_every=1"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(Train, LearnsTheDigitsOfTheRepository) {
  TemporaryFolder folder;

  const Result result = flotilla(
      2, {"train", deck, "run.output=" + folder.path("run"), "train.epochs=4", "train.global_batch_size=64"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto validations = metrics(folder.path("run"), "validation");
  ASSERT_EQ(validations.size(), 4U);
  // 92 % of 2000 digits, give or take six standard deviations of such a count.
  EXPECT_TRUE(
      within(validations.back().at("accuracy_top1").get<double>(), 0.92, 6 * std::sqrt(0.92 * 0.08 / 2000)));
  EXPECT_EQ(validations.back().at("samples"), 2000);
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("reason"), "done");
  EXPECT_TRUE(std::filesystem::exists(folder.path("run") + "/deck.toml"));
  EXPECT_TRUE(std::filesystem::exists(folder.path("run") + "/log/rank-0001.log"));
  EXPECT_NE(result.output.find("\nepoch 1 of 4, step 100/628, loss "), std::string::npos) << result.output;
  EXPECT_NE(read_file(folder.path("run") + "/log/rank-0000.log").find("[Epoch 0, batch 100] loss: "),
            std::string::npos);
}

TEST(Train, GivesRanksWithNothingToWarnOfNoLogWhereTheDeckSaysSo) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(2, short_run(folder, "run", {"train.steps=2"})).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder.path("run/log/rank-0001.log")));

  ASSERT_EQ(flotilla(2, short_run(folder, "own", {"train.steps=2", "run.rank_logs=own"})).exit_code, 0);

  EXPECT_TRUE(std::filesystem::exists(folder.path("own/log/rank-0000.log")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("own/log/rank-0001.log")));
}

TEST(Train, LeavesADeckInTheRunsFolderAsItsAuthorWroteIt) {
  TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("run"));
  const std::string text =
      "# A comment\n[model]\nwidths = [4]\nclasses = 3\n[data]\nkind = \"random\"\nshape = [5]\n"
      "train.samples = 24\n[train]\nsteps = 2\nbatch_size = 4\n[schedule]\nlearning_rate = 0.1\n";
  write_file(folder.path("run/deck.toml"), text);

  const Result result =
      flotilla(2, {"train", "--verbose", folder.path("run/deck.toml"), "run.output=" + folder.path("run")});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(read_file(folder.path("run/deck.toml")), text);
  EXPECT_NE(result.output.find("run/deck.toml, which stays as it is: checkpoints hold the resolved one"),
            std::string::npos)
      << result.output;
}

// The same samples in the same order: the losses differ by the rounding of sums only. After 30 steps of Adam
// the rounding of one step (2⁻²⁴ relative) has grown by less than 30 · 64.
TEST(Train, GivesTheSameLossesOnAnyNumberOfWorkers) {
  TemporaryFolder folder;
  for (const int ranks : {1, 2, 4}) {
    const Result result = flotilla(
        ranks, short_run(folder, "run" + std::to_string(ranks), {"train.steps=30", "run.resume=never"}));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }

  const auto expected = metrics(folder.path("run1"), "step");
  ASSERT_EQ(expected.size(), 30U);
  for (const char* run : {"run2", "run4"}) {
    const auto found = metrics(folder.path(run), "step");
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_TRUE(test::within(found[i].at("loss").get<double>(), expected[i].at("loss").get<double>(),
                               30 * 64 * float_rounding))
          << run << " step " << i;
    EXPECT_TRUE(test::within(last_metrics(folder.path(run), "validation").at("loss").get<double>(),
                             last_metrics(folder.path("run1"), "validation").at("loss").get<double>(),
                             30 * 64 * float_rounding));
  }
}

TEST(Train, GivesTheSameLossesWithMicroSteps) {
  TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, short_run(folder, "one", {"train.steps=10"})).exit_code, 0);
  ASSERT_EQ(flotilla(2, short_run(folder, "four", {"train.steps=10", "train.accumulate_steps=2"})).exit_code,
            0);

  const auto expected = metrics(folder.path("one"), "step");
  const auto found = metrics(folder.path("four"), "step");

  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(test::within(found[i].at("loss").get<double>(), expected[i].at("loss").get<double>(),
                             10 * 64 * float_rounding));
}

TEST(Train, GivesTheSameBitsTwice) {
  TemporaryFolder folder;
  for (const char* run : {"a", "b"})
    ASSERT_EQ(flotilla(2, short_run(folder, run, {"train.steps=25"})).exit_code, 0);

  EXPECT_EQ(final_model(folder.path("a")).values, final_model(folder.path("b")).values);
}

TEST(Train, GivesTheSameBitsWithEveryAllReduceAndSeveralBuckets) {
  TemporaryFolder folder;
  // Two workers: a + b has one result, whatever the algorithm and the buckets.
  const std::vector<std::string> buckets = {"strategy.bucket_mb=0.05", "strategy.last_bucket_mb=0.01"};
  for (const std::string kind : {"mpi", "shared-memory"}) {
    std::vector<std::string> more = {"train.steps=25", "strategy.all_reduce=" + kind, "--verbose"};
    ASSERT_EQ(flotilla(2, short_run(folder, kind, more)).exit_code, 0);
    more.insert(more.end(), buckets.begin(), buckets.end());
    const Result result = flotilla(2, short_run(folder, kind + "-buckets", more));
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.output.find("6 gradients in 3 buckets"), std::string::npos) << result.output;
  }

  const Snapshot expected = final_model(folder.path("mpi"));
  for (const char* run : {"shared-memory", "mpi-buckets", "shared-memory-buckets"})
    EXPECT_EQ(final_model(folder.path(run)).values, expected.values) << run;
}

TEST(Train, RunsTheOriginalsFirstDemo) {
  TemporaryFolder folder;

  const Result result =
      flotilla(2, {"train", source_path("inputs/mlp_random.toml"), "run.output=" + folder.path("run")});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(last_metrics(folder.path("run"), "end").at("step"), 1001);
}

TEST(Train, WritesATraceOfEveryRank) {
  TemporaryFolder folder;

  const Result result = flotilla(2, short_run(folder, "run", {"train.steps=12", "run.trace=true"}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const char* rank : {"rank-0000", "rank-0001"}) {
    const auto trace = nlohmann::json::parse(read_file(folder.path("run") + "/trace/" + rank + ".json"));
    int forward = 0;
    int read = 0;
    for (const auto& event : trace.at("traceEvents")) {
      forward += event.at("name") == "forward" ? 1 : 0;
      read += event.at("name") == "read batch" ? 1 : 0;
    }
    EXPECT_EQ(forward, 12) << rank;
    // Batches of training alone, with those read ahead: two threads must not write into one record.
    EXPECT_GE(read, 12) << rank;
    EXPECT_LE(read, 20) << rank;
  }
}

TEST(Check, PrintsThePlanAndWritesNothing) {
  TemporaryFolder folder;

  const Result result = flotilla(2, {"train", deck, "run.output=" + folder.path("run"), "--check"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("steps per epoch: 79"), std::string::npos) << result.output;  // ⌈10,000 / 128⌉
  EXPECT_FALSE(std::filesystem::exists(folder.path("run")));
}

TEST(Check, PredictsTheMemoryWithinATenth) {
  for (const std::string key : {"model.widths=[128,128]", "model.widths=[3000,2000]", "run.trace=true"}) {
    TemporaryFolder folder;
    std::vector<std::string> arguments = short_run(folder, "run", {"train.steps=15", key});
    const Result run = flotilla(2, arguments);
    ASSERT_EQ(run.exit_code, 0) << run.errors;
    arguments.push_back("--check");

    const Result check = flotilla(2, arguments);

    ASSERT_EQ(check.exit_code, 0) << check.errors;
    const std::string line = check.output.substr(check.output.find("peak, all together"));
    const double planned_mib = std::stod(line.substr(std::string("peak, all together").size()));
    const double measured =
        last_metrics(folder.path("run"), "end").at("peak_memory_bytes").get<double>() / (1024.0 * 1024.0);
    EXPECT_TRUE(test::within(planned_mib / measured, 1.0, 0.1)) << key;
  }
}

}  // namespace
}  // namespace flotilla::test
