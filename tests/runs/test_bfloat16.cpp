// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/cpu/native_precisions.hpp"
#include "kernels/processor/processor.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// bfloat16 on processors as a user runs it.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

Texts arguments(const std::string& output, const std::string& precision, int steps, const Texts& more = {}) {
  Texts all = {"train",
               source_path("inputs/mnist_mlp.toml"),
               "run.output=" + output,
               "device.precision=" + precision,
               "device.threads=1",
               "model.widths=[16]",
               "train.global_batch_size=64",
               "train.steps=" + std::to_string(steps),
               "validation.every=0",
               "--verbose"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// What the run printed.
std::string train(int ranks, const Texts& all) {
  const Result result = flotilla(ranks, all);
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  return result.output;
}

class Bfloat16Runs : public testing::Test {
 protected:
  void SetUp() override {
    if (!is_native(Precision::bfloat16)) GTEST_SKIP() << "this processor does not compute in bfloat16";
  }
  TemporaryFolder folder_;
};

TEST_F(Bfloat16Runs, GoOnToTheSameBits) {
  const std::vector<Texts> strategies = {{}, {"strategy.kind=local-sgd", "strategy.period=4"}};
  for (std::size_t i = 0; i < strategies.size(); ++i) {
    const std::string number = std::to_string(i);
    train(2, arguments(folder_.path("whole" + number), "bfloat16", 20, strategies[i]));
    for (const int stop : {7, 20})
      train(2, arguments(folder_.path("parts" + number), "bfloat16", stop, strategies[i]));

    EXPECT_EQ(final_model(folder_.path("parts" + number)).values,
              final_model(folder_.path("whole" + number)).values);
  }
}

TEST_F(Bfloat16Runs, SayWhatAutoTakesAndThatAResumedRunChangesPrecision) {
  const std::string output = folder_.path("run");

  const bool faster = is_faster_in_bfloat16();
  const std::string taken = faster ? "bfloat16" : "float32";
  const std::string left = faster ? "float32" : "bfloat16";

  const std::string first = train(1, arguments(output, "auto", 2));
  const std::string same = train(1, arguments(output, taken, 4));
  const std::string other = train(1, arguments(output, left, 6));

  EXPECT_NE(first.find(taken + ", which device.precision = \"auto\" takes on processors " +
                       (faster ? "with" : "without") + " AMX (AMD's: AVX512_BF16)\n"),
            std::string::npos)
      << first;
  EXPECT_EQ(same.find("the checkpoint is of a run in"), std::string::npos) << same;
  EXPECT_NE(other.find("precision    " + left + ", and the checkpoint is of a run in " + taken + "\n"),
            std::string::npos)
      << other;
}

/// Runs as on a processor with no instructions beyond this set.
Result with_instructions(const std::string& set, const Texts& all) {
  return run(in_environment({"ONEDNN_MAX_CPU_ISA=" + set}, flotilla_command(1, all)));
}

TEST(ProcessorsWithoutBfloat16, AreNamedWhereTheDeckAsksForItAndTakenAsTheyAreByAuto) {
  const TemporaryFolder folder;

  const Result refused = with_instructions("AVX2", arguments(folder.path("run"), "bfloat16", 2));
  const Result automatic = with_instructions("AVX2", arguments(folder.path("run"), "auto", 2));

  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("device.precision = \"bfloat16\" needs a processor with AMX or AVX512_BF16, "
                                "and oneDNN"),
            std::string::npos)
      << refused.errors;
  EXPECT_NE(refused.errors.find("finds AVX2 on this one: use \"float32\", or \"auto\""), std::string::npos)
      << refused.errors;
  EXPECT_EQ(automatic.exit_code, 0) << automatic.errors;
  EXPECT_NE(automatic.output.find("float32, which device.precision = \"auto\" takes on processors without "
                                  "AMX (AMD's: AVX512_BF16)\n"),
            std::string::npos)
      << automatic.output;
}

TEST(ProcessorsWithoutAmx, ComputeInFloat32WithAuto) {
  if (is_amd()) GTEST_SKIP() << "AMD's processors are faster in bfloat16 without AMX";
  const TemporaryFolder folder;

  const Result automatic = with_instructions("AVX512_CORE_BF16", arguments(folder.path("run"), "auto", 2));

  EXPECT_NE(automatic.output.find("float32, which device.precision = \"auto\" takes"), std::string::npos)
      << automatic.output;
}

}  // namespace
}  // namespace flotilla::test
