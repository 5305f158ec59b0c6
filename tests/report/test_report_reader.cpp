// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "src/report/metrics_reader.hpp"
#include "src/report/read_run.hpp"
#include "tests/report/metrics_text.hpp"
#include "tests/support/within.hpp"

namespace flotilla::report {
namespace {

RunRecord record_of(const std::string& metrics, const std::string& failure = "") {
  const test::TemporaryFolder folder;
  write_into(folder, "metrics.jsonl", metrics);
  if (!failure.empty()) write_into(folder, "failure.json", failure);
  return read_run(folder.path(), "run");
}

std::string error_of(const std::string& metrics) {
  try {
    record_of(metrics);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::vector<double> steps_of(const std::vector<Point>& points) {
  std::vector<double> steps;
  for (const Point& point : points) steps.push_back(point.step);
  return steps;
}

TEST(MetricsLineSplit, FindsKeysAndValuesAndRefusesWhatIsCutOff) {
  std::vector<MetricValue> values;
  const std::string line = R"({"a":1.5e-3, "b" : "x\"},{" ,"c":null,"d":[1,{"e":"]"}],"f":{}})";
  ASSERT_TRUE(split_metrics_line(line, values));
  ASSERT_EQ(values.size(), 5U);
  EXPECT_EQ(values[0].key, "a");
  EXPECT_EQ(metric_number(values[0].text), 1.5e-3);
  EXPECT_EQ(metric_text(values[1].text), "x\"},{");
  EXPECT_TRUE(std::isnan(metric_number(values[2].text).value()));
  EXPECT_EQ(values[3].text, R"([1,{"e":"]"}])");
  EXPECT_EQ(values[4].text, "{}");
  EXPECT_FALSE(metric_number("1.5x"));
  EXPECT_FALSE(metric_number(""));
  for (std::size_t length = 0; length < line.size(); ++length)
    EXPECT_FALSE(split_metrics_line(line.substr(0, length), values)) << length;
  EXPECT_FALSE(split_metrics_line(line + "}", values));
}

TEST(ReadRun, TakesSeriesTotalsAndPlaces) {
  const RunRecord run = record_of(start_line(0, 1000) + step_line(5, 1001, "2.0") +
                                  step_line(10, 1002, "1.5") + validation_line(10, 1003, 0.5) +
                                  step_line(20, 1005, "1.0") + validation_line(20, 1006, 0.75) +
                                  R"({"event":"end","time":1007,"reason":"done","step":20,"seconds":7})"
                                  "\n");

  EXPECT_EQ(run.series.at("step.loss"), (std::vector<Point>{{5, 2.0}, {10, 1.5}, {20, 1.0}}));
  EXPECT_EQ(run.series.at("validation.accuracy_top1"), (std::vector<Point>{{10, 0.5}, {20, 0.75}}));
  EXPECT_FALSE(run.series.contains("step.period"));
  EXPECT_EQ(run.totals.ending, "done");
  EXPECT_EQ(run.totals.figure, "accuracy_top1");
  ASSERT_EQ(run.totals.improvements.size(), 2U);
  EXPECT_EQ(run.totals.improvements[1].value, 0.75);
  EXPECT_EQ(run.totals.improvements[1].at.seconds, 6.0);
  EXPECT_EQ(run.totals.improvements[1].at.epochs, 2.0);
  EXPECT_EQ(run.totals.end.seconds, 7.0);
  EXPECT_EQ(run.totals.end.samples, 20.0 * 64.0);
  EXPECT_EQ(run.totals.sent_bytes, 20.0 * 100.0);
  EXPECT_TRUE(test::within(run.totals.exposed_share, 0.25, 1e-12));
  EXPECT_TRUE(test::within(run.totals.samples_per_s, 640.0, 1e-9));
  ASSERT_EQ(run.phases.size(), 3U);
  EXPECT_TRUE(test::within(run.phases[0].values.back(), 0.01, 1e-12));  // what the five phases leave of 0.1 s
}

TEST(ReadRun, LeavesOutTheTimeBetweenAttempts) {
  const RunRecord run = record_of(start_line(0, 1000) + step_line(10, 1001, "9") + step_line(20, 1002, "8") +
                                  start_line(20, 5000) + step_line(30, 5001, "5") + step_line(40, 5002, "4"));

  EXPECT_EQ(run.series.at("step.loss"), (std::vector<Point>{{10, 9}, {20, 8}, {30, 5}, {40, 4}}));
  EXPECT_EQ(run.totals.end.seconds, 4.0);
  EXPECT_EQ(run.totals.ending, "not ended");
  ASSERT_EQ(run.marks.size(), 1U);
  EXPECT_EQ(run.marks[0].kind, MarkKind::resume);
  EXPECT_EQ(run.marks[0].step, 20.0);
}

TEST(ReadRun, TakesAnIncompleteLastLineForARunUnderWay) {
  const std::string whole = start_line(0, 1000) + step_line(10, 1001, "9");
  const std::string last = step_line(20, 1002, "8");
  for (const std::size_t length : {std::size_t{1}, last.size() / 2, last.size() - 2}) {
    const RunRecord run = record_of(whole + last.substr(0, length));
    EXPECT_TRUE(run.warnings.empty()) << length;
    EXPECT_EQ(steps_of(run.series.at("step.loss")), std::vector<double>{10}) << length;
  }
  const RunRecord run = record_of(whole + last.substr(0, last.size() - 1));  // only its line feed is missing
  EXPECT_EQ(steps_of(run.series.at("step.loss")), (std::vector<double>{10, 20}));
}

TEST(ReadRun, CountsDamagedLinesAndNamesTheFirst) {
  const RunRecord run =
      record_of(start_line(0, 1000) + "{\"event\":\"step\",\"ti\n" + step_line(10, 1001, "9") +
                std::string(3, '\0') + "\n" + step_line(20, 1002, "eight") +
                R"({"event":"step","step":null,"loss":1})"
                "\n" +
                step_line(30, 1003, "7"));

  EXPECT_EQ(steps_of(run.series.at("step.loss")), (std::vector<double>{10, 30}));
  ASSERT_EQ(run.warnings.size(), 1U);
  EXPECT_NE(run.warnings[0].find("metrics.jsonl:2: 4 lines are damaged, this is the first"),
            std::string::npos)
      << run.warnings[0];
}

TEST(ReadRun, MarksLossesThatAreNotFiniteStragglersAndTheFailure) {
  const auto late = [](const std::string& cost) { return R"(,"slowest_rank":1,"slowest_cost_s":)" + cost; };
  const RunRecord run = record_of(
      start_line(0, 1000) + step_line(10, 1001, "9", late("0.5")) + step_line(20, 1002, "8", late("0.25")) +
          step_line(30, 1003, "null", late("0.04")) + step_line(40, 1004, "null", late("0.5")),
      R"({"time":1005,"rank":1,"ranks":2,"host":"n1","step":40,"what":"<b>gone</b>","exit_code":3})");

  ASSERT_EQ(run.marks.size(), 4U);
  EXPECT_EQ(run.marks[0].kind, MarkKind::straggler);
  EXPECT_EQ(run.marks[0].step, 0.0);
  EXPECT_EQ(run.marks[0].until, 20.0);  // 0.04 s at the next report are not worth a mark
  EXPECT_EQ(run.marks[0].text, "rank 1 came last and cost the others 0.8 s");
  EXPECT_EQ(run.marks[1].text, "the loss is not finite");
  EXPECT_EQ(run.marks[1].step, 30.0);
  EXPECT_EQ(run.marks[2].until, 40.0);
  EXPECT_EQ(run.marks[3].text, "rank 1 on n1: <b>gone</b>");
  EXPECT_EQ(run.totals.ending, "failed");
}

TEST(ReadRun, LeavesOutAFailureThatNoRunWrote) {
  for (const char* text : {R"({"rank":"1","host":null})", "not JSON"}) {
    const RunRecord run = record_of(start_line(0, 1000) + step_line(10, 1001, "9"), text);
    ASSERT_EQ(run.warnings.size(), 1U);
    EXPECT_NE(run.warnings[0].find("failure.json was not written by a run"), std::string::npos);
    EXPECT_EQ(run.totals.ending, "not ended");
  }
}

TEST(ReadRun, HasTheGapBetweenTrainingAndTheLastValidation) {
  const auto accuracy = [](double value) { return cat(R"(,"accuracy_top1":)", value); };
  const RunRecord run = record_of(start_line(0, 1000) + step_line(10, 1001, "2", accuracy(0.25)) +
                                  validation_line(10, 1002, 0.5) + step_line(20, 1003, "1", accuracy(0.75)) +
                                  step_line(30, 1004, "1", accuracy(1.0)) + validation_line(30, 1005, 0.625) +
                                  step_line(40, 1006, "1", accuracy(0.0)));
  EXPECT_EQ(run.totals.gap_of, "accuracy_top1");
  EXPECT_EQ(run.totals.gap, 0.875 - 0.625);

  const RunRecord loss = record_of(start_line(0, 1000) + step_line(10, 1001, "0.25") +
                                   step_line(20, 1001, "null") + validation_line(20, 1002, 0.5));
  EXPECT_EQ(loss.totals.gap_of, "loss");
  EXPECT_EQ(loss.totals.gap, 0.5 - 0.25);
  EXPECT_TRUE(std::isnan(record_of(start_line(0, 1000) + step_line(10, 1001, "1")).totals.gap));
}

/// A run of 10 steps with this evaluation.json beside it.
RunRecord evaluated(const std::string& evaluation, double time = 1000) {
  const test::TemporaryFolder folder;
  write_into(folder, "metrics.jsonl", start_line(0, time) + step_line(10, time, "1"));
  write_into(folder, "evaluation.json", evaluation);
  return read_run(folder.path(), "run");
}

/// What evaluate writes of three classes; the confusion matrix has rows of true classes.
std::string evaluation_text(int step, const std::string& matrix) {
  return cat(R"({"checkpoint":"c.h5","step":)", step, R"(,"data":"digits","samples":9,"loss":1,"classes":[)",
             R"({"class":"a","samples":4,"predicted":3,"correct":1,"recall":0.25,"precision":0.3},)",
             R"({"class":"b","samples":3,"predicted":3,"correct":3},)",
             R"({"class":"c","samples":2,"predicted":3,"correct":2}])", matrix, "}\n");
}

TEST(Evaluation, IsReducedToWhatThePageShows) {
  const RunRecord run = evaluated(evaluation_text(10, R"(,"confusion":[[1,1,2],[0,3,0],[0,0,2]])"));

  EXPECT_TRUE(run.warnings.empty());
  EXPECT_EQ(
      run.evaluation,
      R"({"checkpoint":"c.h5","classes":[{"correct":1,"name":"a","predicted":3,"samples":4},)"
      R"({"correct":3,"name":"b","predicted":3,"samples":3},{"correct":2,"name":"c","predicted":3,"samples":2}],)"
      R"("confusion":[[1,1,2],[0,3,0],[0,0,2]],"data":"digits","step":10})");
  EXPECT_NE(evaluated(evaluation_text(10, "")).evaluation.find(R"("confusion":[])"), std::string::npos);
}

TEST(Evaluation, IsLeftOutWhereItIsNotOfTheRun) {
  const std::string whole = evaluation_text(10, "");
  for (const auto& [run, part] :
       {std::pair(evaluated(whole, 1e11), "evaluation.json is older than the run"),
        std::pair(evaluated(evaluation_text(11, "")), "is of step 11, which the run has not done"),
        std::pair(evaluated(whole.substr(0, 90)), "is not what `flotilla evaluate --json` writes"),
        std::pair(evaluated(R"({"checkpoint":"c.h5","step":null})"), "is not what `flotilla evaluate"),
        std::pair(evaluated(evaluation_text(10, R"(,"confusion":[[1,1,2,0],[],[],[9]])")), "is not what")}) {
    EXPECT_EQ(run.evaluation, "") << part;
    ASSERT_EQ(run.warnings.size(), 1U) << part;
    EXPECT_NE(run.warnings[0].find(part), std::string::npos) << run.warnings[0];
    EXPECT_NE(run.warnings[0].find("it is left out; write it again with `flotilla evaluate "),
              std::string::npos);
  }
}

TEST(ReadRun, ComparesByTheAveragedWeightsWhereThereAreSome) {
  const RunRecord run =
      record_of(start_line(0, 1000) + step_line(10, 1001, "9") +
                R"({"event":"validation","time":1002,"step":10,"loss":1,"accuracy_top1":0.5,)"
                R"("average_loss":0.9,"average_accuracy_top1":0.75,"best_of":"accuracy_top1"})"
                "\n");

  EXPECT_EQ(run.totals.figure, "average_accuracy_top1");
  EXPECT_EQ(run.totals.last_figure, 0.75);
  ASSERT_EQ(run.totals.improvements.size(), 1U);
  EXPECT_EQ(run.totals.improvements[0].value, 0.75);
}

TEST(ReadRun, ReadsManyBlocksInTheirOrder) {
  std::string metrics = start_line(0, 1000);
  while (metrics.size() < (9U << 20U)) {  // more than two blocks
    const auto step = static_cast<int>(metrics.size() / 200);
    metrics += step_line(step, 1000 + step, std::to_string(step));
  }
  const RunRecord run = record_of(metrics);

  EXPECT_TRUE(run.warnings.empty());
  EXPECT_TRUE(std::ranges::is_sorted(run.series.at("step.loss"), {}, &Point::value));
  EXPECT_EQ(static_cast<std::size_t>(run.totals.step_lines),
            static_cast<std::size_t>(std::ranges::count(metrics, '\n')) - 1);
}

TEST(ReadRun, RefusesWhatIsNoRun) {
  const test::TemporaryFolder folder;
  write_into(folder, "file", "");
  for (const auto& [path, part] : {std::pair(folder.path("none"), "there is no run"),
                                   std::pair(folder.path("file"), "is a file: give the folder"),
                                   std::pair(folder.path(), "it holds no metrics.jsonl")}) {
    try {
      read_run(path, "run");
      ADD_FAILURE() << path;
    } catch (const UserError& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
  for (const std::string& text : {std::string(), start_line(0, 1), std::string("not a line\n")})
    EXPECT_NE(error_of(text).find("has not reported a step yet"), std::string::npos) << error_of(text);
  write_into(folder, "metrics.jsonl", start_line(0, 1) + step_line(1, 2, "1"));
  EXPECT_THROW(read_runs({folder.path(), folder.path() + "/."}), UserError);
}

TEST(UniqueNames, TakeAsManyPartsOfAPathAsItTakes) {
  EXPECT_EQ(unique_names({"runs/a/", "runs/b"}), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(unique_names({"/x/one/run", "/x/two/run", "/x/c"}),
            (std::vector<std::string>{"one/run", "two/run", "c"}));
  EXPECT_EQ(unique_names({"/a/z/run", "/b/z/run"}), (std::vector<std::string>{"a/z/run", "b/z/run"}));
}

}  // namespace
}  // namespace flotilla::report
