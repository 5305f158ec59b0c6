// SPDX-License-Identifier: Apache-2.0
// train.target and run.mlperf_log: a run ends at the target, says so, and does not go on when it is started
// again.
#include <gtest/gtest.h>

#include "tests/runs/program.hpp"

namespace flotilla::test {
namespace {

constexpr const char* deck = R"(
[model]
kind = "resnet"
depth = 18
classes = 2
[data]
kind = "random"
shape = [3, 32, 32]
[data.train]
samples = 16
[data.validation]
samples = 8
[train]
epochs = 3
global_batch_size = 8
target = 0.05
[optimizer]
kind = "momentum"
[schedule]
kind = "linear"
learning_rate = 0.02
final_learning_rate = 1e-4
[checkpoint]
best = "accuracy_top1"
[run]
mlperf_log = true
)";

TEST(Mlperf, ARunEndsAtItsTargetAndLogsItOnce) {
  const TemporaryFolder folder;
  write_file(folder.path("deck.toml"), deck);
  const std::vector<std::string> command = {"train", folder.path("deck.toml"),
                                            "run.output=" + folder.path("run"), "device.threads=1"};
  const Result first = flotilla(2, command);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_EQ(metrics(folder.path("run"), "validation").size(), 1U);
  const std::string log = read_file(folder.path("run/mlperf.log"));
  const Result again = flotilla(2, command);
  ASSERT_EQ(again.exit_code, 0) << again.errors;

  for (const auto& end : metrics(folder.path("run"), "end")) EXPECT_EQ(end.at("reason"), "target reached");
  EXPECT_NE(first.output.find("best.h5; train.target is reached"), std::string::npos) << first.output;
  EXPECT_EQ(read_file(folder.path("run/mlperf.log")), log);
  const double accuracy = first_metrics(folder.path("run"), "validation").at("accuracy_top1");
  const std::string value = nlohmann::json(accuracy).dump();
  for (const std::string part :
       {R"("key":"submission_benchmark","value":"resnet")", R"("key":"global_batch_size","value":8)",
        R"("key":"train_samples","value":16)", R"("key":"eval_samples","value":8)",
        R"("key":"model_bn_span","value":4)", R"("key":"opt_name","value":"sgd")",
        R"("key":"sgd_opt_base_learning_rate","value":0.02)",
        R"("key":"sgd_opt_end_learning_rate","value":0.0001)",
        R"("key":"sgd_opt_learning_rate_decay_steps","value":6)",
        R"("key":"run_stop","value":null,"metadata":{"status":"success","epoch_num":1,"step":2})"})
    EXPECT_EQ(count(log, part), 1) << part << " in\n" << log;
  EXPECT_EQ(count(log, R"("key":"eval_accuracy","value":)" + value), 1) << log;
}

}  // namespace
}  // namespace flotilla::test
