// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "src/observe/console.hpp"

namespace flotilla {
namespace {

TEST(Console, SaysAStepInTheOriginalsTerms) {
  StepReport report{.step = 100, .epoch = 0, .batch = 100, .loss = 0.412349, .samples_per_s = 84120.4};
  report.accuracy_top1 = 0.875;
  report.accuracy_top5 = 0.9921875;

  EXPECT_EQ(console_line(report),
            "[Epoch 0, batch 100] loss: 0.41235, acc1: 0.87500, acc5: 0.99219, 84120 samples/s, lr: 0");
}

TEST(Console, SaysTheMeanLossAndTheLearningRateBehindTheRate) {
  EXPECT_EQ(console_line(StepReport{.step = 100,
                                    .batch = 100,
                                    .loss = 0.412349,
                                    .learning_rate = 0.001,
                                    .samples_per_s = 84120.4,
                                    .loss_mean = 0.52341}),
            "[Epoch 0, batch 100] loss: 0.41235, 84120 samples/s, mean loss: 0.52341, lr: 0.001");
}

TEST(Console, LeavesTopFiveOutUpToTenClasses) {
  StepReport step{.step = 100, .batch = 100, .loss = 0.5, .samples_per_s = 1000.0, .classes = 10};
  step.accuracy_top1 = 0.875;
  step.accuracy_top5 = 1.0;
  const ValidationReport validation{
      .epoch = 2,
      .figures = {{"loss", 0.25}, {"accuracy_top1", 0.975}, {"accuracy_top5", 1.0}},
      .samples = 2000,
      .classes = 10};

  EXPECT_EQ(console_line(step), "[Epoch 0, batch 100] loss: 0.50000, acc1: 0.87500, 1000 samples/s, lr: 0");
  EXPECT_EQ(console_line(validation), "[Epoch 2, validation] loss: 0.25000, acc1: 0.97500, 2000 samples");
}

// As in metrics.jsonl, which `flotilla watch` reads.
TEST(Console, LeavesTopFiveOutWhereItIsOneOfAnUnknownNumberOfClasses) {
  ValidationReport report{.step = 7,
                          .figures = {{"loss", 0.25}, {"accuracy_top1", 0.5}, {"accuracy_top5", 1.0}}};
  EXPECT_EQ(short_line({}, report).find("acc5"), std::string::npos);
  report.figures["accuracy_top5"] = 0.75;
  EXPECT_NE(short_line({}, report).find("acc5 75"), std::string::npos) << short_line({}, report);
}

TEST(Console, SaysTheTimeOfAnEpoch) {
  const ValidationReport validation{
      .epoch = 2,
      .figures = {{"loss", 0.25}, {"accuracy_top1", 0.975}, {"accuracy_top5", 0.999}},
      .samples = 2000,
      .epoch_s = 75.0};

  EXPECT_EQ(
      console_line(validation),
      "[Epoch 2, validation] loss: 0.25000, acc1: 0.97500, acc5: 0.99900, 2000 samples, epoch: 1 min 15 s");
}

TEST(Console, SaysTheBestValidationSoFar) {
  const ValidationReport validation{
      .epoch = 2,
      .figures = {{"loss", 0.25}, {"accuracy_top1", 0.975}, {"accuracy_top5", 0.999}},
      .samples = 2000,
      .best_of = "accuracy_top1",
      .best = 0.98,
      .best_epoch = 1};

  EXPECT_EQ(console_line(validation),
            "[Epoch 2, validation] loss: 0.25000, acc1: 0.97500, acc5: 0.99900, 2000 samples, best acc1: "
            "0.98000 in "
            "epoch 1");
}

TEST(Console, SaysTheLossScaleAndWhatWasSkipped) {
  StepReport step{.step = 100,
                  .batch = 100,
                  .loss = 0.5,
                  .samples_per_s = 1000.0,
                  .loss_scale = 26214.4,
                  .skipped_steps = 0};
  EXPECT_EQ(console_line(step),
            "[Epoch 0, batch 100] loss: 0.50000, loss_scale: 26214.4, 1000 samples/s, lr: 0");

  step.skipped_steps = 2;

  EXPECT_EQ(console_line(step),
            "[Epoch 0, batch 100] loss: 0.50000, loss_scale: 26214.4, skipped: 2, 1000 samples/s, lr: 0");
  EXPECT_NE(console_line(EndReport{.reason = "done", .step = 100, .skipped_steps = 2})
                .find("done after step 100 (2 skipped: they overflowed) in"),
            std::string::npos);
}

TEST(Console, SaysWhatCommunicationTook) {
  EXPECT_EQ(communication_line(EndReport{.exposed_comm_s = 90.0}), "");
  EXPECT_EQ(communication_line(
                EndReport{.exposed_comm_s = 90.0, .sent = {{"parameters", 12'000'000}, {"sums", 800}}}),
            "communication: worker 0 sent parameters 12.0 MB, sums 800 B and waited " + duration_text(90.0));
}

TEST(Console, SaysAValidationInTheSameTerms) {
  EXPECT_EQ(console_line(ValidationReport{
                .epoch = 2,
                .figures = {{"loss", 0.25}, {"accuracy_top1", 0.975}, {"accuracy_top5", 0.999}},
                .samples = 2000}),
            "[Epoch 2, validation] loss: 0.25000, acc1: 0.97500, acc5: 0.99900, 2000 samples");
}

TEST(Console, SaysAreasInsteadOfAccuraciesWhereClicksArePredicted) {
  StepReport step{.step = 100, .batch = 100, .loss = 0.5, .samples_per_s = 1000.0};
  step.accuracy_top1 = 0.875;
  step.accuracy_top5 = 1.0;
  step.auc = 0.75;
  step.batch_auc = 0.8;
  ValidationReport validation{.epoch = 2, .figures = {{"loss", 0.25}}, .samples = 2000};
  validation.figures["auc"] = 0.8125;
  validation.figures["auc_bound"] = 0.0001;
  validation.figures["pr_auc"] = 0.5;
  validation.figures["log_loss"] = 0.25;
  validation.figures["calibration"] = 1.02;

  EXPECT_EQ(console_line(step),
            "[Epoch 0, batch 100] loss: 0.50000, auc: 0.75000, batch_auc: 0.80000, 1000 samples/s, lr: 0");
  EXPECT_EQ(console_line(validation),
            "[Epoch 2, validation] loss: 0.25000, auc: 0.81250, log_loss: 0.25000, calibration: 1.0200, "
            "2000 samples");
}

TEST(Console, SaysAStepShortlyWithEpochsFromOne) {
  const StartReport run{.steps = 237, .steps_per_epoch = 79};
  StepReport report{.step = 100,
                    .epoch = 1,
                    .batch = 21,
                    .loss = 0.218041,
                    .learning_rate = 0.0111455,
                    .samples_per_s = 198466.226,
                    .loss_mean = 0.509671,
                    .skipped_steps = 0,
                    .accuracy_top1 = 0.9296875,
                    .accuracy_top5 = 1.0,
                    .classes = 10};
  EXPECT_EQ(short_line(run, report),
            "epoch 2 of 3, step 100/237, loss 0.5097, acc1 92.97 %, 198466 samples/s, lr 0.01115");

  report.classes = 100;
  report.skipped_steps = 2;
  report.samples_per_s = 47.97123;
  EXPECT_EQ(
      short_line({}, report),
      "epoch 2, step 100, loss 0.5097, acc1 92.97 %, acc5 100.00 %, 2 skipped, 47.97 samples/s, lr 0.01115");

  report.auc = 0.81251;
  report.batch_auc = 0.8;
  EXPECT_EQ(short_line(run, report),
            "epoch 2 of 3, step 100/237, loss 0.5097, auc 0.8125, 2 skipped, 47.97 samples/s, lr 0.01115");
}

TEST(Console, SaysAValidationShortlyWithTheBestOne) {
  const StartReport run{.steps = 790, .steps_per_epoch = 79};
  ValidationReport report{.step = 237,
                          .epoch = 2,
                          .figures = {{"loss", 0.25}, {"accuracy_top1", 0.975}, {"accuracy_top5", 1.0}},
                          .samples = 2000,
                          .averages = {{"loss", 0.2}, {"accuracy_top1", 0.98}},
                          .epoch_s = 75.0,
                          .best_of = "accuracy_top1",
                          .best = 0.98,
                          .best_epoch = 2,
                          .classes = 10};
  EXPECT_EQ(short_line(run, report),
            "epoch 3 of 10, validation: loss 0.25, acc1 97.50 %, averaged acc1 98.00 %, averaged loss 0.2, "
            "1 min 15 s, the best so far");

  report.averages.clear();
  report.best = 0.98;
  report.best_epoch = 0;
  EXPECT_EQ(short_line(run, report),
            "epoch 3 of 10, validation: loss 0.25, acc1 97.50 %, 1 min 15 s, best acc1 98.00 % in epoch 1");
}

TEST(Console, SaysWhichOfTheValidationsOfAnEpochIsTheBest) {
  const StartReport run{};
  ValidationReport report{.step = 200,
                          .epoch = 2,
                          .figures = {{"loss", 0.25}, {"accuracy_top1", 0.97}},
                          .samples = 2000,
                          .best_of = "accuracy_top1",
                          .best = 0.97,
                          .best_epoch = 2,
                          .classes = 10};
  const std::string first = "epoch 3, validation: loss 0.25, acc1 97.00 %";
  EXPECT_EQ(short_line(run, report), first + ", the best so far");

  report.step = 210;  // a worse one, then a better one of the same epoch
  report.best = 0.98;
  EXPECT_EQ(short_line(run, report), first + ", best acc1 98.00 % in epoch 3");
  report.step = 220;
  report.best = report.figures["accuracy_top1"] = 0.99;
  EXPECT_EQ(short_line(run, report), "epoch 3, validation: loss 0.25, acc1 99.00 %, the best so far");

  report.averages = {{"accuracy_top1", 0.985}};  // the figure that is compared where there is an average
  EXPECT_EQ(short_line(run, report),
            "epoch 3, validation: loss 0.25, acc1 99.00 %, averaged acc1 98.50 %, best acc1 99.00 % in "
            "epoch 3");
  report.best = 0.985;
  EXPECT_EQ(short_line(run, report),
            "epoch 3, validation: loss 0.25, acc1 99.00 %, averaged acc1 98.50 %, the best so far");
}

TEST(Console, ShowsTheKindsOfItsVerbosityAndCutsPlans) {
  const std::string shown[] = {"result\n", "result\nprogress\nnote\nplan\nadvice\n",
                               "result\nprogress\nnote\nplan\nadvice\ndetail\n"};
  for (const Verbosity verbosity : {Verbosity::quiet, Verbosity::normal, Verbosity::verbose}) {
    Console console(0);
    console.set_verbosity(verbosity);
    testing::internal::CaptureStdout();
    console.line("result", Message::result);
    console.line("progress", Message::progress);
    console.line("note");
    console.line("plan", Message::plan);
    console.line("advice", Message::advice);
    console.line("detail", Message::detail);
    EXPECT_EQ(testing::internal::GetCapturedStdout(), shown[static_cast<int>(verbosity)]);
  }
  std::string letters;
  for (int i = 0; i < 101; ++i) letters += "ä";
  Console console(0);
  testing::internal::CaptureStdout();
  console.line(letters, Message::plan);
  console.line(letters, Message::note);
  console.line(letters.substr(2), Message::plan);
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            letters.substr(0, 198) + "…\n" + letters + "\n" + letters.substr(2) + "\n");
}

TEST(Console, ColoursOnTerminalsUnlessNoColorIsSet) {
  Console console(80);
  Console pipe(0);
  testing::internal::CaptureStdout();
  setenv("NO_COLOR", "", 1);
  console.line("done", Message::result);
  console.line("hello");
  pipe.line("done", Message::result);
  setenv("NO_COLOR", "1", 1);
  console.line("done", Message::result);
  unsetenv("NO_COLOR");

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\033[1mdone\033[0m\nhello\ndone\ndone\n");
}

TEST(Console, SaysWhatACheckpointCost) {
  EXPECT_EQ(console_line(CheckpointReport{
                .path = "step-00000400.h5", .bytes = 102'228'000, .stall_s = 0.0123, .write_s = 0.4}),
            "checkpoint step-00000400.h5: 102.2 MB, stall 12.3 ms, written in 400.0 ms");
}

TEST(Console, WritesBytesAndDurationsForReaders) {
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(999'960), "1.0 MB");
  EXPECT_EQ(duration_text(0.04), "0.0 s");
  EXPECT_EQ(duration_text(59.6), "1 min 00 s");
  EXPECT_EQ(duration_text(3780.0), "1 h 03 min");
}

TEST(Console, ShowsNoControlsThatATerminalWouldObey) {
  testing::internal::CaptureStdout();
  Console(0).line(
      "a\033[2Jb\tc\nd\x7F \xC3\xA4 \xC2\x9B"
      "31m");

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "a?[2Jb\tc\nd? \xC3\xA4 ?31m\n");
}

TEST(Console, ShowsNoBarWithoutATerminal) {
  Console console(0);
  testing::internal::CaptureStdout();

  console.bar("45 %");
  console.line("hello");

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "hello\n");
}

TEST(Console, MovesTheBarBelowALineAndErasesItAtTheEnd) {
  Console console(80);
  testing::internal::CaptureStdout();

  console.bar("45 %");
  console.line("hello");
  console.erase_bar();
  console.line("end");

  const std::string erase = "\r\033[K";
  EXPECT_EQ(testing::internal::GetCapturedStdout(), erase + "45 %" + erase + "hello\n45 %" + erase + "end\n");
}

TEST(Console, CutsABarThatWouldNotFitItsLine) {
  Console console(6);
  testing::internal::CaptureStdout();

  console.bar("0123456789");

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "\r\033[K01234");
}

}  // namespace
}  // namespace flotilla
