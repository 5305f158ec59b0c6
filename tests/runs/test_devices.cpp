// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// A run on a device whose memory the host cannot reach, on its way from device to device, and on a processor
// that is older than the executable.

namespace flotilla::test {
namespace {

Result train(int ranks, const std::string& output, int steps, const std::vector<std::string>& more) {
  std::vector<std::string> all = {"train",
                                  source_path("inputs/mnist_mlp.toml"),
                                  "run.output=" + output,
                                  "device.threads=1",
                                  "train.global_batch_size=16",
                                  "validation.every=0",
                                  "run.log_every=4",
                                  "train.steps=" + std::to_string(steps)};
  all.insert(all.end(), more.begin(), more.end());
  return flotilla(ranks, all);
}

std::string line_of(const std::string& output, const std::string& begin) {
  const std::size_t at = output.find(begin);
  return at == std::string::npos ? "" : output.substr(at, output.find('\n', at) - at);
}

/// The largest difference of two runs' models.
double apart(const std::string& a, const std::string& b) {
  const Snapshot one = final_model(a);
  const Snapshot other = final_model(b);
  EXPECT_EQ(one.values.size(), other.values.size());
  double most = 0.0;
  for (std::size_t i = 0; i < one.values.size(); ++i)
    most =
        std::max(most, std::abs(static_cast<double>(one.values[i]) - static_cast<double>(other.values[i])));
  return most;
}

TEST(Devices, TrainAndEvaluateWhereTheHostCannotReach) {
  TemporaryFolder folder;

  const Result trained = train(2, folder.path("far"), 8, {"device.kind=reference", "--verbose"});
  const Result near = train(2, folder.path("near"), 8, {});
  const Result evaluated = flotilla(2, {"evaluate", folder.path("far")});
  const Result evaluated_near = flotilla(2, {"evaluate", folder.path("far"), "device.kind=cpu"});

  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  ASSERT_EQ(near.exit_code, 0) << near.errors;
  EXPECT_NE(trained.output.find("through host memory"), std::string::npos) << trained.output;
  // Adam turns rounding of small gradients into some thousandths of a rate of 0.001 a step.
  EXPECT_TRUE(test::within(apart(folder.path("far"), folder.path("near")), 0.0, 8 * 1e-4));
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  EXPECT_NE(line_of(evaluated.output, "top-1"), "");
  EXPECT_EQ(line_of(evaluated.output, "top-1"), line_of(evaluated_near.output, "top-1"));
}

TEST(Devices, GoOnFromEachOthersCheckpoints) {
  TemporaryFolder folder;
  ASSERT_EQ(train(1, folder.path("near"), 12, {}).exit_code, 0);

  int steps = 0;
  for (const char* device : {"device.kind=cpu", "device.kind=reference", "device.kind=cpu"}) {
    const Result result = train(2, folder.path("both"), steps += 4, {device});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }

  EXPECT_TRUE(test::within(apart(folder.path("both"), folder.path("near")), 0.0, 12 * 1e-4));
}

TEST(Devices, CheckADeckForOneWithMemoryOfItsOwn) {
  const Result result = flotilla(2, {"train", source_path("inputs/mlp_random.toml"), "device.kind=reference",
                                     "train.batch_size=4", "--check"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("copies in host memory"), std::string::npos) << result.output;
}

/// A job whose first ranks run on an x86-64 processor of 2008, which has no AVX, by qemu.
class OlderProcessor : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(QEMU_X86_64)) GTEST_SKIP() << "no qemu-x86_64 (qemu-user), or a sanitizer";
    if (run({QEMU_X86_64, "-cpu", "Nehalem", "/bin/true"}).exit_code != 0)
      GTEST_SKIP() << "programs of this system do not run on it";
    if (!contains(run({FLOTILLA_EXECUTABLE, "--version"}).output, " avx "))
      GTEST_SKIP() << "the executable is for processors without AVX, too";
  }

  /// "flotilla arguments…" on the older processor.
  static std::vector<std::string> older(const std::vector<std::string>& arguments) {
    std::vector<std::string> command = {QEMU_X86_64, "-cpu", "Nehalem", FLOTILLA_EXECUTABLE};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
  }

  static constexpr const char* says = " lacks avx, and this executable was built with -march=";
};

TEST_F(OlderProcessor, IsToldOf) {
  expect_told(run(older({"--version"})), says);
}

TEST_F(OlderProcessor, EndsTheRanksOnOtherProcessors) {
  const TemporaryFolder folder;
  const std::vector<std::string> train = {"train", source_path("inputs/mnist_mlp.toml"),
                                          "run.output=" + folder.path("run")};
  std::vector<std::string> job = {FLOTILLA_MPIEXEC, "-n", "2"};
  for (const std::string& word : older(train)) job.push_back(word);
  job.insert(job.end(), {":", "-n", "1", FLOTILLA_EXECUTABLE});
  job.insert(job.end(), train.begin(), train.end());

  const Result result = run(job);

  EXPECT_NE(result.exit_code, 0);
  if (!launcher_killed_at_once(result)) {
    EXPECT_EQ(result.exit_code, 2) << result.errors;
  }
  EXPECT_EQ(count(result.errors, says), 1) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(folder.path("run")));
}

}  // namespace
}  // namespace flotilla::test
