// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/checkpoint/checkpoint.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"

// A run that goes on with other hyperparameters, or another one that starts from its model.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

class ChangedResume : public testing::Test {
 protected:
  Result train(int ranks, const std::string& output, int steps, const Texts& more = {}) const {
    Texts all = {"train",
                 source_path("inputs/mnist_mlp.toml"),
                 "run.output=" + path(output),
                 "train.steps=" + std::to_string(steps),
                 "train.global_batch_size=64",
                 "device.threads=1",
                 "run.log_every=1"};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  Snapshot newest(const std::string& output) const { return final_model(path(output)); }
  double last_rate(const std::string& output) const {
    return metrics(path(output), "step").back().at("learning_rate");
  }

 private:
  TemporaryFolder folder_;
};

const Texts constant = {"schedule.kind=constant", "schedule.learning_rate=0.1"};
const Texts smaller = {"schedule.kind=constant", "schedule.learning_rate=0.01",
                       "optimizer.weight_decay=0.001"};

TEST_F(ChangedResume, IsRefusedWithBothWaysToGetIt) {
  ASSERT_EQ(train(1, "run", 5, constant).exit_code, 0);

  const Result refused = train(2, "run", 9, smaller);

  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(count(refused.errors, "flotilla: "), 1) << refused.errors;
  const Texts parts = {
      "optimizer.weight_decay: ", "schedule.learning_rate: 0.1 in the checkpoint, 0.01 now",
      "run.resume_with = [\"optimizer.weight_decay\", \"schedule.learning_rate\"]",
      "model.initial_weights = \"" + path("run") + "/checkpoints/step-00000005.h5\" and another run.output"};
  for (const std::string& part : parts)
    EXPECT_NE(refused.errors.find(part), std::string::npos) << part << "\n" << refused.errors;
}

TEST_F(ChangedResume, GoesOnWithWhatTheDeckNamesAndKeepsThat) {
  ASSERT_EQ(train(2, "run", 5, constant).exit_code, 0);
  Texts named = smaller;
  named.emplace_back("run.resume_with=schedule,optimizer.weight_decay");

  const Result changed = train(2, "run", 9, named);
  const Result again = train(2, "run", 11, smaller);
  const Result back = train(2, "run", 13, constant);

  ASSERT_EQ(changed.exit_code, 0) << changed.errors;
  EXPECT_EQ(count(changed.output, "changed      schedule.learning_rate: 0.1 in the checkpoint, 0.01 now "), 1)
      << changed.output;
  EXPECT_EQ(count(changed.output, "changed      optimizer.weight_decay: "), 1) << changed.output;
  ASSERT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(count(again.output, "changed      "), 0) << again.output;
  EXPECT_EQ(last_rate("run"), 0.01);
  EXPECT_NE(newest("run").state.choices.at("changed at step 5").find("schedule.learning_rate: 0.1 in"),
            std::string::npos);
  EXPECT_EQ(back.exit_code, 2) << back.output;
}

TEST_F(ChangedResume, OfDataWithOtherSamplesIsAllowedToo) {
  const std::string data = source_path("inputs/data/mnist/");
  const auto validation = [&](const std::string& set) {
    return Texts{"data.validation.images=" + data + set + "-images-idx3-ubyte.gz",
                 "data.validation.labels=" + data + set + "-labels-idx1-ubyte.gz"};
  };
  ASSERT_EQ(train(1, "run", 3, validation("t10k")).exit_code, 0);
  Texts others = validation("train");

  const Result refused = train(1, "run", 5, others);
  others.emplace_back("run.resume_with=data.validation");
  const Result allowed = train(1, "run", 5, others);

  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(count(refused.errors, "run.resume_with = [\"data.validation\"]"), 1) << refused.errors;
  ASSERT_EQ(allowed.exit_code, 0) << allowed.errors;
  EXPECT_EQ(count(allowed.output, "data.validation holds other samples than when it was saved"), 1)
      << allowed.output;
}

TEST_F(ChangedResume, OfAFinishedCosineSaysThatTheRateJumps) {
  const Texts cosine = {"schedule.kind=cosine", "schedule.learning_rate=0.1"};
  ASSERT_EQ(train(1, "run", 0, {cosine[0], cosine[1], "train.epochs=1"}).exit_code, 0);

  const Result longer = train(2, "run", 0, {cosine[0], cosine[1], "train.epochs=2"});

  ASSERT_EQ(longer.exit_code, 0) << longer.errors;
  EXPECT_EQ(count(longer.errors,
                  "flotilla: warning: the learning rate goes on at 0.05, where the checkpoint's "
                  "deck has 0: schedule.kind = \"cosine\" decays over the whole run, 2 epochs now "
                  "and 1 then; "),
            1)
      << longer.errors;
}

TEST_F(ChangedResume, IsNotNeededToStartAnotherRunFromTheModelOfOne) {
  ASSERT_EQ(train(2, "run", 20, {"checkpoint.every=10"}).exit_code, 0);

  const Result other = train(1, "other", 1,
                             {"model.initial_weights=" + path("run"), "optimizer.kind=sgd",
                              "schedule.kind=constant", "schedule.learning_rate=1e-30", "run.seed=5"});

  ASSERT_EQ(other.exit_code, 0) << other.errors;
  const Snapshot from = newest("run");
  const Snapshot to = newest("other");
  EXPECT_EQ(to.state.step, 1);
  ASSERT_EQ(to.tensors[0].path, from.tensors[0].path);
  for (std::size_t i = 0; i < to.tensors.size(); ++i)
    EXPECT_TRUE(std::ranges::equal(to.of(to.tensors[i]), from.of(from.tensors[i]))) << to.tensors[i].path;
}

}  // namespace
}  // namespace flotilla::test
