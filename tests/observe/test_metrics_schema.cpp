// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "src/observe/metrics_lines.hpp"

namespace flotilla {
namespace {

/// The rows of the table of events in docs/metrics.md.
std::vector<std::string> documented_rows() {
  std::ifstream document(FLOTILLA_SOURCE_DIR "/docs/metrics.md");
  std::vector<std::string> rows;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("| `")) rows.push_back(line);
  }
  return rows;
}

TEST(MetricsSchema, IsTheTableOfTheDocumentation) {
  std::vector<std::string> rows;
  for (const MetricKey& key : metrics_schema()) {
    if (key.key == "event" || key.key == "time") continue;  // the text above the table explains them
    rows.push_back("| `" + key.event + "` | `" + key.key + "` | " + key.type + " | " + key.unit + " | " +
                   key.meaning + " |");
  }

  EXPECT_EQ(documented_rows(), rows);
}

TEST(MetricsSchema, KeepsTheNamesThatScriptsRelyOn) {
  std::set<std::string> names;
  for (const MetricKey& key : metrics_schema()) names.insert(key.event + "." + key.key);

  for (const char* name : {"step.step",
                           "step.epoch",
                           "step.loss",
                           "step.learning_rate",
                           "step.samples_per_s",
                           "step.step_s",
                           "step.exposed_comm_s",
                           "step.input_wait_s",
                           "step.forward_s",
                           "step.backward_s",
                           "step.optimizer_s",
                           "step.memory_bytes",
                           "step.sent_bytes",
                           "step.period",
                           "step.accuracy_top1",
                           "step.accuracy_top5",
                           "step.auc",
                           "step.batch_auc",
                           "validation.step",
                           "validation.loss",
                           "validation.accuracy_top1",
                           "validation.accuracy_top5",
                           "validation.auc",
                           "validation.log_loss",
                           "checkpoint.path",
                           "checkpoint.bytes",
                           "checkpoint.stall_s",
                           "checkpoint.write_s",
                           "end.reason",
                           "start.event"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST(MetricsLine, KeepsTheOrderOfItsKeysAndIsOneLine) {
  const std::string line = metrics_line(EndReport{.reason = "done", .step = 3, .seconds = 1.5}, 12.25);

  EXPECT_EQ(line,
            R"({"event":"end","time":12.25,"reason":"done","step":3,"seconds":1.5,"peak_memory_bytes":0})"
            "\n");
}

TEST(MetricsLine, ReplacesWhatIsNotUtf8) {
  EXPECT_NE(metrics_line(CheckpointReport{.path = "caf\xe9.h5"}, 0.0).find("caf\xef\xbf\xbd.h5"),
            std::string::npos);
}

TEST(MetricsSchema, ReadsTheLinesThatItWrites) {
  StepReport step{.step = 7, .loss = std::nan(""), .sent_bytes = std::int64_t{1} << 60, .period = 8};
  step.slowest_host = "node7";
  const std::vector<std::string> lines = {
      metrics_line(StartReport{.deck = "a.toml",
                               .workers = 4,
                               .steps = 10,
                               .data = {{"data.train", "10 samples, xxh3 0"}},
                               .network_gb_s = 12.5},
                   1.25),
      metrics_line(step, 2.0),
      metrics_line(ValidationReport{.figures = {{"accuracy_top1", 0.5}, {"auc", 0.75}}}, 3.0),
      metrics_line(CheckpointReport{.path = "step-1.h5", .bytes = 12}, 4.0),
      metrics_line(EndReport{.reason = "done", .step = 10}, 5.0)};
  for (const std::string& line : lines) {
    const auto read = read_metrics_line(line);
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(
        std::visit([&](const auto& report) { return metrics_line(report, read->time_s); }, read->report),
        line);
  }
}

TEST(MetricsSchema, ReadsOnlyReports) {
  for (const char* text :
       {"", "{", "[]", "{\"event\":\"step\",\"time\":1,\"st", "{\"event\":\"of a later version\",\"time\":1}",
        "{\"event\":\"step\"}", "{\"event\":\"step\",\"time\":1,\"step\":\"seven\"}"})
    EXPECT_FALSE(read_metrics_line(text)) << text;
  EXPECT_TRUE(read_metrics_line("{\"event\":\"step\",\"time\":1,\"of_a_later_version\":1}"));
}

}  // namespace
}  // namespace flotilla
