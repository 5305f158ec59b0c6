// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// Runs that have made very many steps: a checkpoint of step 16 is rewritten as one of a step just below a
// limit of counters or of file names. With samples in the order of their file, and a rate that stays, the
// steps across the limit must compute what steps 17 to 24 did, bit by bit.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

constexpr std::int64_t steps_before = 16;
constexpr std::int64_t batch = 2500;        // of all workers
constexpr std::int64_t steps_of_epoch = 4;  // 10,000 digits

struct Case {
  const char* name;
  const char* deck;
  Texts keys;
  std::int64_t limit;  ///< A multiple of steps_of_epoch; the run goes on from 4 steps before it
};

std::ostream& operator<<(std::ostream& to, const Case& one) {
  return to << one.name << " across step " << one.limit;
}

class LongCounts : public testing::TestWithParam<Case> {
 protected:
  Result train(const std::string& output, std::int64_t until) const {
    Texts all = {"train",
                 source_path(std::string("inputs/") + GetParam().deck),
                 "run.output=" + output,
                 "run.log_every=1",
                 "data.order=file",
                 "device.threads=1",
                 "train.epochs=0",
                 "train.global_batch_size=" + std::to_string(batch),
                 "train.steps=" + std::to_string(until),
                 "optimizer.kind=momentum",
                 "schedule.kind=constant",
                 "schedule.learning_rate=0.01",
                 "validation.every=0",
                 "checkpoint.every=8",
                 "checkpoint.keep=10"};
    all.insert(all.end(), GetParam().keys.begin(), GetParam().keys.end());
    return flotilla(2, all);
  }

  TemporaryFolder folder_;
};

/// The state of a run that has done so many steps.
CheckpointState moved(CheckpointState state, std::int64_t step) {
  state.step = step;
  state.optimizer_step = step;
  state.samples = step * batch;
  state.position.epoch = step / steps_of_epoch;
  if (const auto averaged = state.numbers.find("period.last_averaging"); averaged != state.numbers.end())
    averaged->second = static_cast<double>(step);
  return state;
}

/// Writes the checkpoint of step 16 of one run into another one as that of `step`, with the parts of workers.
void move_checkpoint(const std::string& from, const std::string& to, std::int64_t step) {
  const std::string old_path = CheckpointFolder(from + "/checkpoints").path_of(steps_before);
  const CheckpointFolder folder(to + "/checkpoints");
  folder.make();
  const std::string path = folder.path_of(step);
  Snapshot snapshot = read_checkpoint(old_path);
  snapshot.state = moved(snapshot.state, step);
  for (CheckpointPart& part : snapshot.state.parts) {
    Snapshot own = read_checkpoint(part_file(old_path, part));
    own.state = moved(own.state, step);
    folder.make_parts(step);
    const std::string name = part.name;
    part = write_checkpoint_file(part_file(path, part), own);
    part.name = name;
  }
  write_checkpoint_file(path, snapshot);
}

const Case cases[] = {
    {"all-reduce", "mnist_mlp.toml", {}, 100'000'000},
    {"local SGD", "mnist_mlp.toml", {"strategy.kind=local-sgd", "strategy.period=4"}, steps_of_epoch << 31},
    {"GEO", "mlp_parameter_server.toml", {"server.mode=geo", "server.push_every=2"}, std::int64_t{1} << 31},
};

INSTANTIATE_TEST_SUITE_P(Limits, LongCounts, testing::ValuesIn(cases));

TEST_P(LongCounts, TrainAsAnyOthers) {
  const std::string plain = folder_.path("plain");
  const std::string output = folder_.path("run");
  const std::int64_t begin = GetParam().limit - 4;
  const Result before = train(plain, steps_before + 8);
  ASSERT_EQ(before.exit_code, 0) << before.errors;
  move_checkpoint(plain, output, begin);

  const Result first = train(output, begin + 4);
  const Result second = train(output, begin + 8);

  ASSERT_EQ(first.exit_code, 0) << first.errors;
  ASSERT_EQ(second.exit_code, 0) << second.errors;
  EXPECT_NE(second.output.find(", step " + std::to_string(GetParam().limit) + ","), std::string::npos)
      << second.output;
  const auto steps = metrics(output, "step");
  ASSERT_EQ(steps.size(), 8U);
  const auto plain_steps = metrics(plain, "step");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int64_t step = begin + 1 + static_cast<std::int64_t>(i);
    EXPECT_EQ(steps[i].at("step"), step);
    EXPECT_EQ(steps[i].at("loss"), plain_steps[steps_before + i].at("loss")) << "step " << step;
    EXPECT_EQ(steps[i].at("epoch").get<double>() - plain_steps[steps_before + i].at("epoch").get<double>(),
              static_cast<double>((begin - steps_before) / steps_of_epoch));
  }
  EXPECT_TRUE(fs::exists(CheckpointFolder(output + "/checkpoints").path_of(begin + 8)));
  EXPECT_EQ(final_model(output).values, final_model(plain).values);
}

}  // namespace
}  // namespace flotilla::test
