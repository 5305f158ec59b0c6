// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// float16 and bfloat16 as a user runs them, on the device "reference".

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

Texts operator+(Texts a, const Texts& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Texts arguments(const std::string& deck, const std::string& output, const Texts& more) {
  return Texts{"train",
               source_path("inputs/" + deck),
               "run.output=" + output,
               "device.kind=reference",
               "device.precision=float16",
               "device.threads=1",
               "model.widths=[16]",
               "train.global_batch_size=64",
               "run.log_every=10",
               "validation.every=0"} +
         more;
}

/// Goes up and down every few steps; powers of two, so that nothing depends on when it is divided by.
const Texts& restless() {
  static const Texts keys = {"device.loss_scale.initial=2097152", "device.loss_scale.growth_every=7",
                             "device.loss_scale.backoff=0.5", "device.loss_scale.backoff_every=1"};
  return keys;
}

/// Batches of one sample at a scale that is always about to overflow: each worker skips other steps.
const Texts& uneven() {
  static const Texts keys = {"train.global_batch_size=2",        "optimizer.kind=adam",
                             "device.loss_scale.initial=65536",  "device.loss_scale.growth=1.1",
                             "device.loss_scale.growth_every=1", "device.loss_scale.backoff=0.9",
                             "device.loss_scale.backoff_every=1"};
  return keys;
}

void train(int ranks, const Texts& all) {
  const Result result = flotilla(ranks, all);
  ASSERT_EQ(result.exit_code, 0) << result.errors;
}

/// A worker's part of the newest checkpoint.
Snapshot part_of(const std::string& run_folder, int worker) {
  const fs::path file = find_newest_good(run_folder, [](const std::string&) {}).value();
  return read_checkpoint((file.parent_path() / (file.stem().string() + ".parts")).string() + "/worker-000" +
                         std::to_string(worker) + ".h5");
}

TEST(MixedPrecisionRuns, GoOnToTheSameBitsAndTheSameScale) {
  const std::vector<Texts> strategies = {{}, {"strategy.kind=local-sgd", "strategy.period=16"}};
  for (const Texts& strategy : strategies) {
    const TemporaryFolder folder;
    const auto until = [&](const std::string& output, int steps) {
      train(2, arguments("mnist_mlp.toml", folder.path(output), restless()) + strategy +
                   Texts{"train.steps=" + std::to_string(steps)});
    };
    until("whole", 50);
    for (const int stop : {3, 29, 50}) until("parts", stop);

    const Snapshot whole = final_model(folder.path("whole"));
    const Snapshot parts = final_model(folder.path("parts"));
    EXPECT_EQ(parts.values, whole.values) << strategy.size();
    EXPECT_EQ(parts.state.numbers, whole.state.numbers);
    EXPECT_GT(whole.state.numbers.at("skipped_steps"), 3.0);
    EXPECT_LT(whole.state.numbers.at("skipped_steps"), 25.0);
    if (strategy.empty()) {
      EXPECT_EQ(static_cast<double>(whole.state.optimizer_step),
                50.0 - whole.state.numbers.at("skipped_steps"));
      continue;
    }
    for (int worker = 0; worker < 2; ++worker)
      EXPECT_EQ(part_of(folder.path("parts"), worker).state.numbers,
                part_of(folder.path("whole"), worker).state.numbers);
  }
}

/// Adam's bias corrections follow a worker's own steps, of which each has skipped others.
TEST(MixedPrecisionRuns, GoOnWithTheStepsThatEachWorkersOptimizerHasTaken) {
  const TemporaryFolder folder;
  const auto count_of = [&](const std::string& output, int worker) {
    const CheckpointState state = part_of(folder.path(output), worker).state;
    EXPECT_EQ(static_cast<double>(state.optimizer_step),
              static_cast<double>(state.step) - state.numbers.at("skipped_steps"))
        << "worker " << worker << " at step " << state.step;
    return state.optimizer_step;
  };
  const auto until = [&](const std::string& output, int steps) {
    train(2,
          arguments("mnist_mlp.toml", folder.path(output), uneven()) +
              Texts{"strategy.kind=local-sgd", "strategy.period=64", "train.steps=" + std::to_string(steps)});
  };
  until("whole", 50);
  until("parts", 29);
  EXPECT_NE(count_of("parts", 0), count_of("parts", 1)) << "this tests nothing";
  until("parts", 50);

  EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values);
  for (int worker = 0; worker < 2; ++worker) {
    EXPECT_EQ(part_of(folder.path("parts"), worker).values, part_of(folder.path("whole"), worker).values);
    EXPECT_EQ(count_of("parts", worker), count_of("whole", worker));
  }
}

/// GEO servers add in the order of arrival, so a resumed run must agree only in the counts.
TEST(MixedPrecisionRuns, GoOnWithGeosStepsOfEachWorker) {
  const TemporaryFolder folder;
  for (const std::string steps : {"29", "50"})
    train(3, arguments("mlp_parameter_server.toml", folder.path("run"), uneven()) +
                 Texts{"roles.kind=ratio", "roles.servers=1", "server.mode=geo", "server.push_every=8",
                       "train.steps=" + steps});

  for (int worker = 0; worker < 2; ++worker) {
    const CheckpointState state = part_of(folder.path("run"), worker).state;
    EXPECT_EQ(static_cast<double>(state.optimizer_step), 50.0 - state.numbers.at("skipped_steps")) << worker;
  }
}

/// One worker's differences arrive in one order only. Both runs save at step 29, where it pushes for the
/// save.
TEST(MixedPrecisionRuns, GoOnToTheSameBitsWithOneWorkerOfGeo) {
  const TemporaryFolder folder;
  const auto until = [&](const std::string& output, int steps) {
    train(2, arguments("mlp_parameter_server.toml", folder.path(output), uneven()) +
                 Texts{"roles.kind=ratio", "roles.servers=1", "server.mode=geo", "server.push_every=8",
                       "checkpoint.every=29", "train.steps=" + std::to_string(steps)});
  };
  until("whole", 50);
  for (const int stop : {29, 50}) until("parts", stop);

  const Snapshot whole = part_of(folder.path("whole"), 0);
  const Snapshot parts = part_of(folder.path("parts"), 0);
  EXPECT_EQ(parts.values, whole.values);
  EXPECT_EQ(parts.state.numbers, whole.state.numbers);
  EXPECT_EQ(parts.state.optimizer_step, whole.state.optimizer_step);
  EXPECT_EQ(final_model(folder.path("parts")).values, final_model(folder.path("whole")).values);
}

TEST(MixedPrecisionRuns, GoOnToTheSameBitsAfterAKill) {
  const TemporaryFolder folder;
  const Texts local = restless() + Texts{"strategy.kind=local-sgd", "strategy.period=16"};
  Texts run = arguments("mnist_mlp.toml", folder.path("run"), local) +
              Texts{"train.epochs=100000", "checkpoint.every=9", "checkpoint.keep=1000"};
  {
    Program program(flotilla_command(2, run));
    const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
    while (metrics(folder.path("run"), "checkpoint").size() < 2)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    kill(ranks[1], SIGKILL);
    EXPECT_NE(program.wait().exit_code, 0);
  }
  const std::int64_t step = final_model(folder.path("run")).state.step;
  run.push_back("train.steps=" + std::to_string(step + 20));
  Texts whole = run;
  whole[2] = "run.output=" + folder.path("whole");

  train(2, run);
  train(2, whole);

  EXPECT_EQ(final_model(folder.path("run")).values, final_model(folder.path("whole")).values);
  EXPECT_EQ(final_model(folder.path("run")).state.numbers, final_model(folder.path("whole")).state.numbers);
}

/// The numbers of a checkpoint without those of the best validation, which rounding moves.
std::map<std::string, double> loss_scale_of(const Snapshot& snapshot) {
  std::map<std::string, double> numbers = snapshot.state.numbers;
  std::erase_if(numbers, [](const auto& number) { return number.first.starts_with("best."); });
  return numbers;
}

TEST(MixedPrecisionRuns, SynchronousServersSkipWhatAllReduceSkips) {
  const TemporaryFolder folder;
  const Texts more = restless() + Texts{"train.steps=40", "optimizer.kind=adam"};
  train(2, arguments("mnist_mlp.toml", folder.path("reduced"), more));
  train(5,
        arguments("mlp_parameter_server.toml", folder.path("served"), more) +
            Texts{"server.mode=sync", "roles.kind=ratio", "roles.servers=3", "server.min_block_size=1000"});

  const Snapshot reduced = final_model(folder.path("reduced"));
  const Snapshot served = final_model(folder.path("served"));
  // The servers compute in float, the reference device in double: a half may come to lie on the other side
  // now and then, which is 2⁻¹¹ of what it adds to an update of at most 0.001 in each step.
  ASSERT_EQ(served.values.size(), reduced.values.size());
  for (std::size_t i = 0; i < served.values.size(); ++i)
    ASSERT_TRUE(test::within(served.values[i], reduced.values[i], 40 * 0.001 * std::ldexp(1.0, -8))) << i;
  EXPECT_EQ(loss_scale_of(served), loss_scale_of(reduced));
  EXPECT_EQ(served.state.optimizer_step, reduced.state.optimizer_step);
  EXPECT_GT(served.state.numbers.at("skipped_steps"), 0.0);
}

TEST(MixedPrecisionRuns, TrainWithServersThatNobodyWaitsFor) {
  for (const std::string mode : {"async", "half-async", "geo"}) {
    const TemporaryFolder folder;
    Texts run = arguments("mlp_parameter_server.toml", folder.path("run"),
                          restless() + Texts{"train.steps=180", "server.mode=" + mode});
    if (mode != "async") run.emplace_back("server.push_every=3");

    train(4, run);

    const auto steps = metrics(folder.path("run"), "step");
    EXPECT_GT(steps.back().at("skipped_steps").get<int>(), 0) << mode;
    EXPECT_LT(steps.back().at("skipped_steps").get<int>(), 90) << mode;
    // How far each worker is ahead differs from run to run, and a report is of one batch, so three are
    // averaged. Usually their loss is less than half of that of guessing one of ten digits; a quarter less is
    // required.
    double loss = 0.0;
    for (std::size_t i = steps.size() - 3; i < steps.size(); ++i)
      loss += steps[i].at("loss").get<double>() / 3;
    EXPECT_TRUE(within(0.25 * std::log(10.0), 0.0, std::log(10.0) - loss)) << mode;
  }
}

TEST(MixedPrecisionRuns, SayWhatTheyScaledAndSkipped) {
  const TemporaryFolder folder;

  const Result result = flotilla(
      2, arguments("mnist_mlp.toml", folder.path("run"), restless() + Texts{"train.steps=20", "--verbose"}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto steps = metrics(folder.path("run"), "step");
  const auto end = metrics(folder.path("run"), "end");
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_GE(steps[0].at("loss_scale").get<double>(), 1.0);
  EXPECT_EQ(steps[1].at("skipped_steps"), end[0].at("skipped_steps"));
  EXPECT_NE(result.output.find("loss scale   dynamic"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(", loss_scale: "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find(" skipped: they overflowed)"), std::string::npos) << result.output;
}

TEST(MixedPrecisionRuns, EndWhereNoScaleWouldHelp) {
  const TemporaryFolder folder;

  const Result result =
      flotilla(2, arguments("mnist_mlp.toml", folder.path("run"),
                            {"device.loss_scale.kind=static", "device.loss_scale.value=1e12"}));

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("100 steps in a row overflowed in float16 at the loss scale 1e+12, which "
                               "cannot fall any further"),
            std::string::npos)
      << result.errors;
}

TEST(MixedPrecisionRuns, ReachTheAccuracyOfFloat32) {
  const TemporaryFolder folder;
  std::map<std::string, double> accuracies;
  double samples = 0.0;
  for (const std::string precision : {"float32", "float16", "bfloat16"}) {
    train(2, arguments("mnist_mlp.toml", folder.path(precision),
                       {"device.precision=" + precision, "train.steps=157"}));
    const auto found = last_metrics(folder.path(precision), "validation");
    accuracies[precision] = found.at("accuracy_top1");
    samples = found.at("samples");
  }
  const double expected = accuracies["float32"];

  // Three standard deviations of the difference of two counts of the same chance.
  const double margin = 3.0 * std::sqrt(2.0 * expected * (1.0 - expected) / samples);
  EXPECT_GT(expected, 0.8);
  EXPECT_TRUE(test::within(accuracies["float16"], expected, margin));
  EXPECT_TRUE(test::within(accuracies["bfloat16"], expected, margin));
}

TEST(MixedPrecisionRuns, ExchangeCheckpointsWithFloat32) {
  const TemporaryFolder folder;
  const auto until = [&](const std::string& precision, int steps) {
    return arguments("mnist_mlp.toml", folder.path("run"),
                     {"device.precision=" + precision, "train.steps=" + std::to_string(steps)});
  };

  train(2, until("float32", 10));
  train(2, until("float16", 20));
  train(2, until("bfloat16", 30));
  train(2, until("float32", 40));

  EXPECT_EQ(final_model(folder.path("run")).state.step, 40);
}

}  // namespace
}  // namespace flotilla::test
