// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/observe/console.hpp"
#include "src/observe/metrics_lines.hpp"
#include "src/observe/reporter.hpp"
#include "tests/files/file_size_limit.hpp"
#include "tests/observe/read_back.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using nlohmann::json;

StepReport step_report(std::int64_t step) {
  return {
      .step = step, .epoch = 0, .batch = step, .loss = 0.5, .learning_rate = 0.01, .samples_per_s = 84120.0};
}

std::vector<json> metrics_of(const test::TemporaryFolder& folder) {
  std::vector<json> lines;
  for (const std::string& line : lines_of(folder.path("metrics.jsonl"))) lines.push_back(json::parse(line));
  return lines;
}

bool has_type(const json& value, const std::string& type) {
  if (type.starts_with("text")) return value.is_string();
  if (type.starts_with("integer")) return value.is_number_integer();
  if (type.starts_with("array")) return value.is_array() && !value.empty() && value.front().is_number();
  return value.is_number() || value.is_null();
}

TEST(Reporter, WritesEveryEventAsTheSchemaSays) {
  const test::TemporaryFolder folder;
  {
    Reporter reporter({.folder = folder.path()});
    reporter.start({.deck = "mnist.toml",
                    .workers = 2,
                    .hosts = 2,
                    .steps = 10,
                    .steps_per_epoch = 5,
                    .data = {{"data.train", "10 samples, xxh3 0"}, {"data.validation", "5 samples, xxh3 0"}},
                    .network_gb_s = 1.25,
                    .network_latency_us = 20.0,
                    .slowest_link_gb_s = 1.0,
                    .slowest_link = "node1, node2"});
    StepReport step = step_report(1);
    step.accuracy_top1 = 0.75;
    step.accuracy_top5 = 1.0;
    step.loss_mean = 0.5;
    step.auc = 0.75;
    step.batch_auc = 0.5;
    step.period = 4;
    step.staleness = 1.5;
    step.loss_scale = 32768.0;
    step.skipped_steps = 2;
    step.wait_s = 0.25;
    step.compute_s = 0.5;
    step.slowest_rank = 1;
    step.slowest_host = "node2";
    step.slowest_phase = "compute";
    step.slowest_times = 3;
    step.slowest_cost_s = 0.125;
    reporter.step(step);
    reporter.validation(
        {.step = 1,
         .figures = {{"loss", 0.25},
                     {"accuracy_top1", 0.5},
                     {"accuracy_top5", 1.0},
                     {"macro_f1", 0.5},
                     {"balanced_accuracy", 0.5},
                     {"roc_auc", 0.75},
                     {"roc_auc_bound", 0.001},
                     {"auc", 0.75},
                     {"auc_bound", 0.001},
                     {"pr_auc", 0.5},
                     {"log_loss", 0.25},
                     {"calibration", 1.0},
                     {"rmse", 2.0},
                     {"mae", 1.5},
                     {"r2", 0.75},
                     {"accuracy", 0.5},
                     {"f1", 0.25}},
         .samples = 7,
         .outputs = {{{"rmse", 2.0}, {"mae", 1.5}, {"r2", 0.75}, {"accuracy", 0.5}, {"f1", 0.25}},
                     {{"rmse", 3.0}}},
         .averages = {{"loss", 0.25},
                      {"accuracy_top1", 0.5},
                      {"accuracy_top5", 0.75},
                      {"macro_f1", 0.5},
                      {"balanced_accuracy", 0.5},
                      {"roc_auc", 0.75},
                      {"roc_auc_bound", 0.001},
                      {"rmse", 2.0},
                      {"r2", 0.75},
                      {"accuracy", 0.5},
                      {"f1", 0.25}},
         .epoch_s = 2.5,
         .best_of = "auc",
         .best = 0.75,
         .best_epoch = 0});
    reporter.checkpoint({.step = 1, .path = "step-00000001.h5", .bytes = 5});
    reporter.end({.reason = "done",
                  .step = 1,
                  .skipped_steps = 2,
                  .exposed_comm_s = 0.25,
                  .sent = {{"gradients", 8},
                           {"parameters", 8},
                           {"statistics", 8},
                           {"slots", 8},
                           {"sums", 8},
                           {"evaluation", 8},
                           {"servers", 8}}});
  }

  const std::vector<json> lines = metrics_of(folder);
  std::size_t checked = 0;
  for (const json& line : lines) {
    std::size_t keys = 0;
    for (const MetricKey& key : metrics_schema()) {
      if (key.event != line.at("event").get<std::string>()) continue;
      ++keys;
      ASSERT_TRUE(line.contains(key.key)) << key.event << "." << key.key;
      EXPECT_TRUE(has_type(line[key.key], key.type)) << key.event << "." << key.key;
    }
    EXPECT_EQ(line.size(), keys) << line;
    checked += keys;
  }

  EXPECT_EQ(lines.size(), 5U);
  EXPECT_EQ(checked, metrics_schema().size());
  EXPECT_EQ(lines[1]["accuracy_top1"], 0.75);
  EXPECT_EQ(lines[2]["samples"], 7);
  EXPECT_GT(lines[0]["time"], 1.7e9);
}

TEST(Reporter, LeavesOutWhatDoesNotApplyAndWritesNullForWhatIsNotFinite) {
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path()});
  StepReport report = step_report(1);
  report.loss = std::numeric_limits<double>::quiet_NaN();
  report.samples_per_s = std::numeric_limits<double>::infinity();

  reporter.step(report);

  const json line = metrics_of(folder).at(0);
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["samples_per_s"].is_null());
  EXPECT_FALSE(line.contains("accuracy_top1"));
}

TEST(Reporter, HasEachLineInTheFileBeforeItReturns) {
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path()});

  for (std::int64_t step = 1; step <= 3; ++step) {
    reporter.step(step_report(step));
    EXPECT_EQ(metrics_of(folder).size(), static_cast<std::size_t>(step));
  }
}

TEST(Reporter, StartsMetricsAnewUnlessItResumes) {
  const test::TemporaryFolder folder;
  Reporter({.folder = folder.path()}).step(step_report(1));

  Reporter({.folder = folder.path()}).step(step_report(2));

  ASSERT_EQ(metrics_of(folder).size(), 1U);
  EXPECT_EQ(metrics_of(folder)[0]["step"], 2);
}

TEST(Reporter, DropsLaterStepsAndBrokenLinesWhenItResumes) {
  const test::TemporaryFolder folder;
  {
    Reporter reporter({.folder = folder.path()});
    reporter.start({.steps = 10});
    for (const std::int64_t step : {2, 4, 6}) reporter.step(step_report(step));
    reporter.checkpoint({.step = 4});
    reporter.start({.steps = 10, .first_step = 6});
    std::ofstream(folder.path("metrics.jsonl"), std::ios::app) << R"({"event":"step","st)";
  }

  Reporter reporter({.folder = folder.path(), .append = true, .resumed_step = 4});
  reporter.step(step_report(5));

  std::vector<std::string> left;
  for (const json& line : metrics_of(folder)) {
    left.push_back(line["event"].get<std::string>() + " " + std::to_string(line.value("step", 0)));
  }
  EXPECT_EQ(left, (std::vector<std::string>{"start 0", "step 2", "step 4", "checkpoint 4", "step 5"}));
}

TEST(Reporter, WritesTheResolvedDeckAndRemovesAnOldFailure) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path("failure.json")) << "{}";

  const Reporter reporter({.folder = folder.path(), .resolved_deck = "seed = 1\n"});

  EXPECT_EQ(text_of(folder.path("deck.toml")), "seed = 1\n");
  EXPECT_FALSE(std::filesystem::exists(folder.path("failure.json")));
}

TEST(Reporter, RemovesWhatAKilledRunLeftHalfWrittenAndNothingElse) {
  const test::TemporaryFolder folder;
  for (const char* name : {"metrics.jsonl.12-34.partial", "deck.toml.12-34.partial", "mine.partial"})
    std::ofstream(folder.path(name)) << "half";

  const Reporter reporter({.folder = folder.path(), .rank = 0, .resolved_deck = "deck"});

  EXPECT_FALSE(std::filesystem::exists(folder.path("metrics.jsonl.12-34.partial")));
  EXPECT_FALSE(std::filesystem::exists(folder.path("deck.toml.12-34.partial")));
  EXPECT_TRUE(std::filesystem::exists(folder.path("mine.partial")));
}

TEST(Reporter, GivesEveryRankALogAndOnlyRank0TheRest) {
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path("run"), .rank = 3, .resolved_deck = "seed = 1\n"});
  testing::internal::CaptureStdout();

  reporter.step(step_report(1));
  reporter.say("hello");
  reporter.log("only here");

  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(files_in(folder.path("run")), 1U);
  const std::vector<std::string> lines = lines_of(folder.path("run/log/rank-0003.log"));
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_NE(lines[0].find("info: [Epoch 0, batch 1] loss: 0.50000"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("info: hello"), std::string::npos);
}

TEST(Reporter, OpensALogOfOwnLinesAtTheFirstWarningAfterTheStart) {
  for (const LogLines which : {LogLines::own, LogLines::none}) {
    const test::TemporaryFolder folder;
    std::filesystem::create_directory(folder.path("run"));  // by rank 0
    Reporter reporter({.folder = folder.path("run"), .rank = 3, .log_lines = which});

    reporter.log("rank 3 is on node7");
    reporter.warn("all warn of this");
    reporter.start({});
    reporter.step(step_report(1));
    reporter.say("hello");
    reporter.log("came last");
    EXPECT_EQ(files_in(folder.path("run")), 0U);
    reporter.warn("my disk is full");
    reporter.step(step_report(2));
    reporter.log("waited");

    if (which == LogLines::none) {
      EXPECT_EQ(files_in(folder.path("run")), 0U);
      continue;
    }
    std::string text;
    for (const std::string& line : lines_of(folder.path("run/log/rank-0003.log")))
      text += line.substr(24) + "\n";
    EXPECT_EQ(text, "info: rank 3 is on node7\ninfo: came last\nwarning: my disk is full\ninfo: waited\n");
  }
}

TEST(Reporter, GivesRank0AWholeLogInAnyCase) {
  const test::TemporaryFolder folder;

  Reporter({.folder = folder.path(), .rank = 0, .log_lines = LogLines::none}).say("hello");

  EXPECT_EQ(lines_of(folder.path("log/rank-0000.log")).size(), 1U);
}

TEST(Reporter, KeepsTheLogWhenItResumes) {
  const test::TemporaryFolder folder;
  Reporter({.folder = folder.path()}).log("before");

  Reporter({.folder = folder.path(), .append = true}).log("after");

  EXPECT_EQ(lines_of(folder.path("log/rank-0000.log")).size(), 2U);
}

TEST(Reporter, WarnsOncePerText) {
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path()});
  testing::internal::CaptureStderr();

  reporter.warn("slow disk");
  reporter.warn("slow disk");
  reporter.warn("slow network");

  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "flotilla: warning: slow disk\nflotilla: warning: slow network\n");
  EXPECT_EQ(lines_of(folder.path("log/rank-0000.log")).size(), 2U);
}

/// Sets the verbosity of this process's console for a while.
class WithVerbosity {
 public:
  explicit WithVerbosity(Verbosity verbosity) { Console::of_process().set_verbosity(verbosity); }
  WithVerbosity(const WithVerbosity&) = delete;
  WithVerbosity& operator=(const WithVerbosity&) = delete;
  ~WithVerbosity() { Console::of_process().set_verbosity(Verbosity::normal); }
};

/// What a short training shows.
std::string shown_with(Verbosity verbosity) {
  const WithVerbosity scope(verbosity);
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path()});
  testing::internal::CaptureStdout();
  reporter.say("machine", Message::detail);
  reporter.start({.steps = 200, .steps_per_epoch = 100});
  reporter.step(step_report(100));
  reporter.advise(0.1, "little");
  reporter.advise(3.0, "much");
  reporter.validation({.step = 100, .figures = {{"loss", 0.25}}, .samples = 10});
  reporter.checkpoint({.step = 100, .path = "step-00000100.h5", .bytes = 5});
  reporter.end({.reason = "stopped", .step = 100, .seconds = 3.0, .peak_memory_bytes = 1000});
  return testing::internal::GetCapturedStdout();
}

TEST(Reporter, ShowsTheResultFirstAndWhatWouldMakeItFasterAtTheEnd) {
  const std::string validation = "epoch 1 of 2, validation: loss 0.25\n";
  const std::string saved = "checkpoint   step-00000100.h5\n";
  const std::string end = "stopped after step 100 in 3.0 s, peak memory 1.0 kB per rank";
  const std::string resume = "; run the same command again to resume\n";

  EXPECT_EQ(shown_with(Verbosity::normal),
            "starting at step 0 of 200\nepoch 1 of 2, step 100/200, loss 0.5, 84120 samples/s, lr 0.01\n" +
                validation + saved + end + resume + "performance notes\n  much\n  little\n");
  EXPECT_EQ(shown_with(Verbosity::quiet), validation + saved + end + resume);
  EXPECT_EQ(shown_with(Verbosity::verbose),
            "machine\nstarting at step 0 of 200\n"
            "[Epoch 0, batch 100] loss: 0.50000, 84120 samples/s, lr: 0.01\nlittle\nmuch\n"
            "[Epoch 0, validation] loss: 0.25000, 10 samples\n"
            "checkpoint step-00000100.h5: 5 B, stall 0.0 ms, written in 0.0 ms\n" +
                end + "\n");
}

TEST(Reporter, SpeaksInTheOriginalsTermsWithoutABarInAPipe) {
  const WithVerbosity all(Verbosity::verbose);
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path()});
  testing::internal::CaptureStdout();

  reporter.step(step_report(100));

  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "[Epoch 0, batch 100] loss: 0.50000, 84120 samples/s, lr: 0.01\n");
}

TEST(Reporter, GoesOnWhileTheDiskIsFullAndSaysSoAtTheEnd) {
  const test::TemporaryFolder folder;
  Reporter reporter({.folder = folder.path()});
  reporter.step(step_report(1));
  testing::internal::CaptureStderr();
  {
    const FileSizeLimit limit(std::filesystem::file_size(folder.path("metrics.jsonl")));
    reporter.step(step_report(2));
    reporter.step(step_report(3));
  }
  const std::string warnings = testing::internal::GetCapturedStderr();

  reporter.step(step_report(4));

  EXPECT_NE(warnings.find("metrics.jsonl: File too large"), std::string::npos) << warnings;
  EXPECT_EQ(warnings.find("metrics.jsonl", warnings.find("metrics.jsonl") + 1), std::string::npos)
      << warnings;
  EXPECT_EQ(metrics_of(folder).size(), 2U);
  EXPECT_THROW(reporter.end({.reason = "done", .step = 4}), UserError);
}

TEST(Reporter, RefusesAFolderThatCannotBeWrittenAndNamesIt) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path("file")) << "not a folder";

  for (const std::string& path :
       {folder.path("file"), folder.path("file/below"), std::string("/proc/nowhere/run")}) {
    try {
      const Reporter reporter({.folder = path});
      FAIL() << path;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("run.output"), std::string::npos) << error.what();
    }
  }
  EXPECT_EQ(files_in(folder.path()), 1U);
}

}  // namespace
}  // namespace flotilla
