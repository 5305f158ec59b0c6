// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

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
    return last_metrics(path(output), "step").at("learning_rate");
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
      "give run.resume_with=optimizer.weight_decay,schedule.learning_rate; ",
      "give another run.output, and to begin with this one's weights model.initial_weights = \"" +
          path("run") + "/checkpoints/step-00000005.h5\""};
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
  EXPECT_EQ(count(again.output, "(run.resume_with)"), 0) << again.output;
  EXPECT_EQ(count(again.output, "changed      train.steps 9 → 11 since the checkpoint"), 1) << again.output;
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
  EXPECT_EQ(count(refused.errors, "allow others by run.resume_with=data.validation, "), 1) << refused.errors;
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

TEST_F(ChangedResume, GoesOnFromTheNamedStep) {
  ASSERT_EQ(train(1, "run", 20, {"checkpoint.every=10"}).exit_code, 0);
  const std::string checkpoints = path("run") + "/checkpoints";

  const Result none = train(1, "run", 15, {"run.resume=step-7"});
  const Result check = train(1, "run", 15, {"run.resume=step-10", "--check"});
  const Result back = train(2, "run", 15, {"run.resume=step-10"});

  expect_told(none, "run.resume = \"step-7\": " + checkpoints +
                        " has no checkpoint of that step; it has those of steps 10, 20");
  EXPECT_EQ(check.exit_code, 0) << check.errors;
  EXPECT_EQ(count(check.output, "resumed      from " + checkpoints + "/step-00000010.h5, step 10"), 1)
      << check.output;
  EXPECT_EQ(back.exit_code, 0) << back.errors;
  EXPECT_EQ(count(back.output, "resuming after step 10 of 15"), 1) << back.output;
  EXPECT_EQ(count(back.errors, "step-00000020.h5' is later than step 10"), 1) << back.errors;
  EXPECT_NO_THROW(read_checkpoint(checkpoints + "/step-00000020.h5"));
}

/// A run with no step left, and what becomes of another start of it.
class NothingLeft : public ChangedResume {
 protected:
  NothingLeft() { EXPECT_EQ(train(1, "run", 5, constant).exit_code, 0); }
  Result again(const Texts& more, int ranks = 1, int steps = 5) const {
    Texts all = constant;
    all.insert(all.end(), more.begin(), more.end());
    return train(ranks, "run", steps, all);
  }
};

TEST_F(NothingLeft, IsRefusedWhereTheDeckSaysAnotherTraining) {
  const std::map<std::string, Texts> cases = {
      {"train.global_batch_size 64 → 32", {"train.global_batch_size=32"}},
      {"strategy.kind \"all-reduce\" → \"local-sgd\"", {"strategy.kind=local-sgd", "strategy.period=4"}},
      {"strategy.overlap true → false", {"strategy.overlap=false"}},
      {"device.precision \"float32\" → \"bfloat16\"", {"device.precision=bfloat16"}},
      {"run.emulate_straggler.rank left out → 1",
       {"run.emulate_straggler.rank=1", "run.emulate_straggler.slow_factor=2"}},
      {"schedule.learning_rate 0.1 → 0.2", {"schedule.learning_rate=0.2"}},
      {"device.threads 1 → 2, train.accumulate_steps 1 → 2",
       {"device.threads=2", "train.accumulate_steps=2"}}};
  const std::string deck = read_file(path("run") + "/deck.toml");
  for (const auto& [change, overrides] : cases) {
    const Result result = again(overrides);

    expect_told(result, "nothing is left to train: '" + path("run") +
                            "/checkpoints/step-00000005.h5' has reached train.steps = 5, and the deck has "
                            "changed since: " +
                            change);
    EXPECT_TRUE(contains(result.errors, "run.output=…") && contains(result.errors, "run.resume=never"))
        << result.errors;
  }
  EXPECT_EQ(read_file(path("run") + "/deck.toml"), deck);
  EXPECT_EQ(metrics(path("run"), "start").size(), 1U);
}

TEST_F(NothingLeft, IsRefusedWhereTheDeckAsksForLess) {
  expect_told(again({}, 1, 3), "train.steps 5 → 3");
}

TEST_F(NothingLeft, IsSaidFirstAndDoneWhereTheMachineAloneIsAnother) {
  const Result same = again({});
  const Result requeued = again({"device.threads=2", "run.log_every=7", "run.time_limit_s=600"}, 2);

  EXPECT_EQ(same.exit_code, 0) << same.errors;
  EXPECT_EQ(
      same.output.find("nothing left '" + path("run") +
                       "/checkpoints/step-00000005.h5' has reached train.steps = 5; no step is trained"),
      0U)
      << same.output;
  EXPECT_EQ(requeued.exit_code, 0) << requeued.errors;
  EXPECT_EQ(requeued.output.find("nothing left '"), 0U) << requeued.output;
  for (const char* const change : {"changed since: run.log_every 1 → 7, ", ", run.time_limit_s 0.0 → 600.0, ",
                                   ", device.threads 1 → 2, ", ", workers 1 → 2; no step is trained"})
    EXPECT_TRUE(contains(requeued.output, change)) << change << "\n" << requeued.output;
}

TEST_F(NothingLeft, IsToldByCheckAsByTraining) {
  const Result same = again({"--check"});
  const Result other = again({"--check", "train.global_batch_size=32"});

  EXPECT_EQ(same.exit_code, 0) << same.errors;
  EXPECT_EQ(same.output.find("nothing left '"), 0U) << same.output;
  expect_told(other, "train.global_batch_size 64 → 32");
}

TEST_F(NothingLeft, NamesWaysOutThatTrain) {
  const Result other =
      train(1, "other", 5, {constant[0], constant[1], "train.global_batch_size=32", "run.resume=never"});
  const Result longer = again({"train.global_batch_size=32"}, 1, 7);

  EXPECT_EQ(count(other.output, "done after step 5"), 1) << other.output << other.errors;
  EXPECT_EQ(count(longer.output, "done after step 7"), 1) << longer.output << longer.errors;
  EXPECT_EQ(count(longer.output,
                  "changed      train.steps 5 → 7, train.global_batch_size 64 → 32 since the checkpoint"),
            1)
      << longer.output;
}

TEST_F(NothingLeft, IsRefusedForOtherDataWithLeave) {
  const std::string data = source_path("inputs/data/mnist/");
  const Result result = again({"data.validation.images=" + data + "train-images-idx3-ubyte.gz",
                               "data.validation.labels=" + data + "train-labels-idx1-ubyte.gz",
                               "run.resume_with=data.validation"});

  expect_told(result, "the deck has changed since: ");
  EXPECT_TRUE(contains(result.errors, "data.validation 2000 samples")) << result.errors;
}

TEST_F(ChangedResume, IsRefusedByCheckAsByTraining) {
  ASSERT_EQ(train(1, "run", 5, constant).exit_code, 0);
  for (const Texts& other : {Texts{"optimizer.kind=momentum"}, smaller, Texts{"run.resume=never"}}) {
    Texts checked = other;
    checked.emplace_back("--check");

    const Result training = train(1, "run", 9, other);
    const Result check = train(1, "run", 9, checked);

    EXPECT_EQ(training.exit_code, 2) << training.output;
    EXPECT_EQ(check.exit_code, 2) << check.output;
    EXPECT_EQ(check.errors.substr(0, check.errors.find('\n')),
              training.errors.substr(0, training.errors.find('\n')));
  }
}

}  // namespace
}  // namespace flotilla::test
