// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "src/compare/run_figures.hpp"
#include "src/files/atomic_file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla::test {
namespace {

/// 2 workers, batch 20; resumed after step 20; 0.1 s a step and then 0.2 s.
constexpr const char* resumed_run =
    R"({"event":"start","time":1,"device":"d","workers":2,"global_batch_size":20}
{"event":"step","time":1,"step":10,"loss":9,"loss_mean":3,"step_s":0.1,"exposed_comm_s":0.05,"sent_bytes":40}
{"event":"validation","time":1,"step":15,"accuracy_top1":0.7}
{"event":"step","time":1,"step":20,"loss":9,"loss_mean":2,"step_s":0.1,"exposed_comm_s":0.05,"sent_bytes":40}
{"event":"end","time":1,"reason":"stopped","step":20}
{"event":"start","time":1,"device":"d","workers":2,"global_batch_size":20}
{"event":"step","time":1,"step":30,"loss":1.5,"step_s":0.2,"exposed_comm_s":0.0,"sent_bytes":10}
{"event":"validation","time":1,"step":30,"accuracy_top1":0.6}
{"event":"end","time":1,"reason":"done","step":30}
)";

TEST(RunFigures, AreThoseOfTheWholeRun) {
  const RunFigures figures = figures_of(resumed_run, 0.65);

  EXPECT_EQ(figures.end, "done");
  EXPECT_EQ(figures.workers, 2);
  EXPECT_EQ(figures.steps, 30);
  EXPECT_EQ(figures.samples, 600);
  EXPECT_EQ(figures.metric, "accuracy_top1");
  EXPECT_EQ(figures.last, 0.6);
  EXPECT_EQ(figures.best, 0.7);
  EXPECT_EQ(figures.loss, 1.5);
  EXPECT_TRUE(test::within_double_roundings(figures.seconds, 4.0, 4));
  EXPECT_TRUE(test::within_double_roundings(figures.samples_per_s(), 150.0, 4));
  EXPECT_TRUE(test::within_double_roundings(figures.exposed_share, 0.25, 4));
  EXPECT_TRUE(test::within_double_roundings(figures.bytes_per_sample, 3.0, 4))
      << "900 bytes of worker 0 for 300 samples";
  ASSERT_TRUE(figures.target_s.has_value());
  EXPECT_TRUE(test::within_double_roundings(*figures.target_s, 1.5, 4)) << "the validation of step 15";
  EXPECT_FALSE(figures_of(resumed_run, 0.8).target_s.has_value());
}

TEST(RunFigures, TakeTheAreaUnderTheCurveOfClicksAndLeaveOutHalfLines) {
  const RunFigures figures = figures_of(
      R"({"event":"validation","time":1,"step":1,"accuracy_top1":0.9,"auc":0.75}
{"event":"en)",
      std::nullopt);

  EXPECT_EQ(figures.metric, "auc");
  EXPECT_EQ(figures.last, 0.75);
  EXPECT_EQ(figures.end, "");
}

TEST(RunFigures, AreThoseOfTheAveragedWeightsWhereThereAreSomeAndLeaveOutLinesOfOtherTypes) {
  const RunFigures figures = figures_of(
      R"({"event":"validation","time":1,"step":1,"accuracy_top1":0.9,"average_accuracy_top1":0.5}
{"event":7,"time":1}
{"event":"validation","time":1,"step":"two","accuracy_top1":0.9}
)",
      0.8);

  EXPECT_EQ(figures.last, 0.5);
  EXPECT_EQ(figures.best, 0.5);
  EXPECT_FALSE(figures.target_s.has_value());
}

class Progress : public testing::Test {
 protected:
  Progress() {
    write_text_file_atomically(run() + "/deck.toml", "[run]\nseed = 1\ntime_limit_s = 3\n");
    write_text_file_atomically(run() + "/metrics.jsonl", resumed_run);
  }
  std::string run() const { return folder_.path("run"); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Progress, IsReadFromTheFolder) {
  const std::string deck = "[run]\nseed = 1\ntime_limit_s = 9\n";
  EXPECT_EQ(progress_in(run(), deck, 2), Progressed::ended);
  EXPECT_EQ(progress_in(run() + "/none", deck, 2), Progressed::not_begun);
  const std::string text = resumed_run;
  write_text_file_atomically(run() + "/metrics.jsonl", text.substr(0, text.rfind("{\"event\":\"end\"")));
  EXPECT_EQ(progress_in(run(), deck, 2), Progressed::begun);
}

TEST_F(Progress, OfAnotherDeckIsRefused) {
  try {
    progress_in(run(), "[run]\nseed = 2\n", 2);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(), run() +
                                " holds a run of another deck (seed = 1, now seed = 2): remove that folder, "
                                "or give the plan another output");
  }
}

TEST_F(Progress, OfAnotherNumberOfWorkersIsRefused) {
  try {
    progress_in(run(), "[run]\nseed = 1\n", 4);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_EQ(error.what(), run() +
                                " holds a run of 2 workers, and this job has 4: start as many ranks as "
                                "give 2, or give the plan another output");
  }
}

TEST(RunFigures, HaveTheDataOfTheLastStartWhichMustBeThoseKnown) {
  DataIdentities known = figures_of(R"({"event":"start","time":1,"train_data":"2 samples, xxh3 1"}
{"event":"start","time":2,"train_data":"2 samples, xxh3 2","validation_data":"1 samples, xxh3 3"}
)",
                                    {})
                             .data;
  const DataIdentities first = {{"data.train", "2 samples, xxh3 2"},
                                {"data.validation", "1 samples, xxh3 3"}};
  EXPECT_EQ(known, first);
  check_data("runs/a", {}, "now", known);
  check_data("runs/b", {{"data.train", "2 samples, xxh3 2"}}, "now", known);
  EXPECT_EQ(known, first);
  try {
    check_data("runs/c", {{"data.train", "2 samples, xxh3 1"}}, "now", known);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(
        error.what(),
        "runs/c holds a run on other samples (data.train: 2 samples, xxh3 1; 2 samples, xxh3 2 now): "
        "remove that folder, or give the plan another output");
  }
}

}  // namespace
}  // namespace flotilla::test
