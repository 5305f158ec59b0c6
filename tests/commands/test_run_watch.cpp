// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kernels/error.hpp"
#include "src/commands/watch.hpp"
#include "src/files/run_lock.hpp"
#include "src/observe/failure_report.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using Texts = std::vector<std::string>;

Texts no_jobs() {
  return {};
}

/// A run's folder, written as a run does; time passes by hand.
class WrittenRun {
 public:
  WrittenRun() : folder_(temporary_.path("run")) { std::filesystem::create_directory(folder_); }
  const std::string& folder() const { return folder_; }
  template <class Report>
  void write(const Report& report, double time_s) {
    text(metrics_line(report, time_s));
  }
  void text(const std::string& text) { std::ofstream(folder_ + "/metrics.jsonl", std::ios::app) << text; }
  void start(double time_s) { write(StartReport{.steps = 100, .steps_per_epoch = 10}, time_s); }
  void step(std::int64_t step, double time_s) {
    write(StepReport{.step = step,
                     .epoch = (step - 1) / 10,
                     .batch = (step - 1) % 10 + 1,
                     .loss = 0.5,
                     .samples_per_s = 100.0,
                     .step_s = 0.5,
                     .exposed_comm_s = 0.1,
                     .input_wait_s = 0.025},
          time_s);
  }

 private:
  test::TemporaryFolder temporary_;
  std::string folder_;
};

TEST(RunWatch, SaysThatAFolderIsNotThereAndWhatIsQueued) {
  RunWatch watch("runs/of/tomorrow", [] { return Texts{"job 7 resnet is pending (Resources)"}; });

  EXPECT_EQ(watch.look(80, 0.0).waiting,
            "waiting for runs/of/tomorrow, which is not there yet; job 7 resnet is pending (Resources)");
}

TEST(RunWatch, DistinguishesAStartingRunFromNone) {
  const WrittenRun run;
  RunWatch watch(run.folder(), no_jobs);
  {
    const RunLock lock(run.folder());
    EXPECT_NE(watch.look(80, 0.0).waiting.find("is starting"), std::string::npos);
  }
  EXPECT_EQ(watch.look(80, 0.0).waiting, "waiting for a run in " + run.folder() + ": no process holds it");
  const test::TemporaryFolder without_runs;
  EXPECT_EQ(RunWatch(without_runs.path(), no_jobs).look(80, 0.0).waiting,
            "waiting for a run in " + without_runs.path() + ": no process holds it");
}

TEST(RunWatch, ShowsTheLastLineOfEachKindFirstAndThenEachLine) {
  WrittenRun run;
  run.start(100.0);
  run.step(10, 101.0);
  run.step(20, 102.0);
  RunWatch watch(run.folder(), no_jobs);

  const RunNews first = watch.look(200, 102.5);
  run.step(30, 103.0);
  run.write(
      ValidationReport{
          .step = 30, .epoch = 2, .figures = {{"loss", 0.25}, {"accuracy_top1", 0.9}}, .samples = 10},
      103.5);
  const RunNews second = watch.look(200, 104.0);

  ASSERT_EQ(first.lines.size(), 2U);
  EXPECT_EQ(first.lines[0], "starting at step 0 of 100");
  EXPECT_TRUE(first.lines[1].starts_with("epoch 2 of 10, step 20/100, loss 0.5, "));
  EXPECT_EQ(first.waiting, "");
  EXPECT_EQ(
      first.live,
      " 20 % [####....................] epoch 2 of 10, step 20/100, loss 0.50000, 100 samples/s, epoch 0.0 s "
      "left, run 8.0 s left, waiting 25 %");
  ASSERT_EQ(second.lines.size(), 2U);
  EXPECT_TRUE(second.lines[0].starts_with("epoch 3 of 10, step 30/100, "));
  EXPECT_TRUE(second.lines[1].starts_with("epoch 3 of 10, validation: loss 0.25, acc1 90.00 %"));
  EXPECT_EQ(watch.look(200, 104.0).lines.size(), 0U);
}

TEST(RunWatch, TakesALineOnceItIsWhole) {
  WrittenRun run;
  run.start(100.0);
  const std::string line = metrics_line(StepReport{.step = 10, .batch = 10, .loss = 0.5}, 101.0);
  RunWatch watch(run.folder(), no_jobs);
  run.text(line.substr(0, 20));
  EXPECT_EQ(watch.look(80, 101.0).lines.size(), 1U);

  run.text(line.substr(20));

  EXPECT_EQ(watch.look(80, 101.0).lines.size(), 1U);
}

TEST(RunWatch, EndsWithTheExitCodeOfTheRun) {
  for (const auto& [reason, exit_code] :
       {std::pair("done", exit_done), std::pair("stopped early", exit_done),
        std::pair("target reached", exit_done), std::pair("stopped", exit_stopped),
        std::pair("time limit", exit_stopped), std::pair("diverged", exit_user_error)}) {
    WrittenRun run;
    run.start(100.0);
    run.write(EndReport{.reason = reason, .step = 100, .seconds = 2.0}, 102.0);
    RunWatch watch(run.folder(), no_jobs);

    EXPECT_EQ(watch.look(80, 102.0).exit_code, exit_code) << reason;
  }
}

TEST(RunWatch, GoesOnAfterAnEndThatARunWasResumedFrom) {
  WrittenRun run;
  run.start(100.0);
  run.write(EndReport{.reason = "stopped", .step = 50, .seconds = 2.0}, 102.0);
  run.write(StartReport{.steps = 100, .steps_per_epoch = 10, .first_step = 50}, 110.0);
  RunWatch watch(run.folder(), no_jobs);

  EXPECT_FALSE(watch.look(80, 110.0).exit_code.has_value());
}

TEST(RunWatch, SaysAFailureButNotThatOfAnEarlierRun) {
  WrittenRun run;
  run.start(100.0);
  report_failure({.rank = 3, .ranks = 4, .host = "node7", .step = 120, .what = "no memory", .exit_code = 3},
                 run.folder());  // with the time of today
  RunWatch watch(run.folder(), no_jobs);

  const RunNews news = watch.look(80, 100.0);

  EXPECT_EQ(news.lines.back(), "flotilla: rank 3 on node7, step 120: no memory");
  EXPECT_EQ(news.exit_code, 3);
  run.start(1e11);
  EXPECT_FALSE(watch.look(80, 1e11).exit_code.has_value());
}

TEST(RunWatch, SaysThatAQuietRunIsHeldOrNot) {
  WrittenRun run;
  run.start(100.0);
  run.step(10, 104.0);
  RunWatch watch(run.folder(), no_jobs);
  EXPECT_EQ(watch.look(80, 123.0).waiting, "");  // five times the four seconds between the lines
  {
    const RunLock lock(run.folder());
    const RunNews news = watch.look(80, 130.0);
    EXPECT_TRUE(news.waiting.starts_with("no new line of the run (process ")) << news.waiting;
    EXPECT_EQ(news.quiet_s, 26.0);
  }
  EXPECT_EQ(
      watch.look(80, 130.0).waiting,
      "no process holds " + run.folder() +
          ": the run ended without its last line, after step 10; started again it resumes from its newest "
          "checkpoint");
}

TEST(RunWatch, ReadsAFileThatWasWrittenAnewFromItsBeginning) {
  WrittenRun run;
  run.start(100.0);
  run.step(10, 101.0);
  RunWatch watch(run.folder(), no_jobs);
  watch.look(80, 101.0);

  std::filesystem::rename(run.folder() + "/metrics.jsonl", run.folder() + "/old.jsonl");
  run.start(200.0);

  EXPECT_EQ(watch.look(80, 200.0).lines, Texts{"starting at step 0 of 100"});
}

TEST(RunWatch, WaitsForTheNextAttemptThatHoldsTheFolder) {
  WrittenRun run;
  run.start(100.0);
  run.write(EndReport{.reason = "stopped", .step = 50, .seconds = 2.0}, 102.0);
  RunWatch watch(run.folder(), no_jobs);
  {
    const RunLock lock(run.folder());
    const RunNews news = watch.look(80, 110.0);
    EXPECT_FALSE(news.exit_code.has_value());
    EXPECT_NE(news.waiting.find("is starting"), std::string::npos) << news.waiting;
  }
  EXPECT_EQ(watch.look(80, 111.0).exit_code, exit_stopped);
}

TEST(RunWatch, ReadsFilesOfManyBlocks) {
  WrittenRun run;
  run.start(100.0);
  std::string lines;
  for (int i = 1; i <= 20000; ++i)
    lines += metrics_line(StepReport{.step = i, .batch = i, .loss = 0.5, .step_s = 0.5}, 100.0 + i);
  run.text(lines);  // some 10 MB
  RunWatch watch(run.folder(), no_jobs);

  const RunNews first = watch.look(80, 20100.0);

  ASSERT_EQ(first.lines.size(), 2U);
  EXPECT_EQ(first.lines[0], "starting at step 0 of 100");
  EXPECT_NE(first.live.find("step 20000/100"), std::string::npos) << first.live;
  run.text(lines);
  EXPECT_EQ(watch.look(80, 20100.0).lines.size(), 20000U);
}

TEST(RunWatch, LeavesOutAFailureThatItCannotRead) {
  WrittenRun run;
  run.start(100.0);
  std::ofstream(run.folder() + "/failure.json") << R"({"time": 200, "step": null, "what": 3})";
  RunWatch watch(run.folder(), no_jobs);

  EXPECT_FALSE(watch.look(80, 101.0).exit_code.has_value());
}

}  // namespace
}  // namespace flotilla
