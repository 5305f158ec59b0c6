// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "kernels/error.hpp"
#include "src/observe/mlperf_log.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using nlohmann::json;

std::vector<json> events(const std::string& path) {
  std::ifstream file(path);
  std::vector<json> all;
  for (std::string line; std::getline(file, line);) {
    EXPECT_EQ(line.substr(0, 10), ":::MLLOG {") << line;
    all.push_back(json::parse(line.substr(9)));
  }
  return all;
}

/// "INTERVAL_START block_start null {...}"
std::string text_of(const json& event) {
  return event.at("event_type").get<std::string>() + " " + event.at("key").get<std::string>() + " " +
         event.at("value").dump() + " " + event.at("metadata").dump();
}

class MlperfLogFile : public testing::Test {
 protected:
  const test::TemporaryFolder folder_;
  const std::string path_ = folder_.path("mlperf.log");
  const MlperfFacts facts_ = {{"submission_benchmark", "resnet"},
                              {"seed", std::int64_t{7}},
                              {"sgd_opt_end_learning_rate", 0.0001},
                              {"sgd_opt_learning_rate_decay_poly_power", std::monostate()}};
};

TEST_F(MlperfLogFile, HoldsTheEventsOfARunInOrder) {
  MlperfLog log(path_, 0, 0);
  log.run_starts(facts_, 1.5);
  log.validation_starts(2, 20);
  log.validation_stops(0.25);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  log.validation_starts(4, 40);
  log.validation_stops(0.875);
  log.run_stops(true);

  const std::vector<json> all = events(path_);
  std::vector<std::string> texts;
  for (const json& event : all) texts.push_back(text_of(event));
  EXPECT_EQ(texts,
            (std::vector<std::string>{
                "POINT_IN_TIME cache_clear false {}", "INTERVAL_START init_start null {}",
                "POINT_IN_TIME submission_benchmark \"resnet\" {}", "POINT_IN_TIME seed 7 {}",
                "POINT_IN_TIME sgd_opt_end_learning_rate 0.0001 {}",
                "POINT_IN_TIME sgd_opt_learning_rate_decay_poly_power null {}",
                "INTERVAL_END init_stop null {}", "INTERVAL_START run_start null {}",
                "INTERVAL_START block_start null {\"epoch_count\":2,\"first_epoch_num\":1,\"step\":20}",
                "INTERVAL_END block_stop null {\"epoch_count\":2,\"first_epoch_num\":1,\"step\":20}",
                "INTERVAL_START eval_start null {\"epoch_num\":2,\"step\":20}",
                "POINT_IN_TIME eval_accuracy 0.25 {\"epoch_num\":2,\"step\":20}",
                "INTERVAL_END eval_stop null {\"epoch_num\":2,\"step\":20}",
                "INTERVAL_START block_start null {\"epoch_count\":2,\"first_epoch_num\":3,\"step\":40}",
                "INTERVAL_END block_stop null {\"epoch_count\":2,\"first_epoch_num\":3,\"step\":40}",
                "INTERVAL_START eval_start null {\"epoch_num\":4,\"step\":40}",
                "POINT_IN_TIME eval_accuracy 0.875 {\"epoch_num\":4,\"step\":40}",
                "INTERVAL_END eval_stop null {\"epoch_num\":4,\"step\":40}",
                "INTERVAL_END run_stop null {\"epoch_num\":4,\"status\":\"success\",\"step\":40}"}));
  const auto time = [&](std::size_t i) { return all[i].at("time_ms").get<std::int64_t>(); };
  for (std::size_t i = 1; i < all.size(); ++i) EXPECT_GE(time(i), time(i - 1)) << texts[i];
  EXPECT_GE(time(2) - time(1), 1500);
  EXPECT_GE(time(14) - time(13), 20) << "a block begins where the validation before it ends";
}

/// The key and, of validations and the end, the step of each event.
std::vector<std::string> outline(const std::string& path) {
  std::vector<std::string> all;
  for (const json& event : events(path)) {
    const json& metadata = event.at("metadata");
    all.push_back(event.at("key").get<std::string>() +
                  (metadata.contains("step") ? " " + metadata.at("step").dump() : ""));
  }
  return all;
}

TEST_F(MlperfLogFile, GoesOnAfterAResumeWithoutWhatItHeldOfLaterSteps) {
  {
    MlperfLog log(path_, 0, 0);
    log.run_starts({}, 0.0);
    log.validation_starts(1, 10);
    log.validation_stops(0.25);
    log.validation_starts(2, 20);
    log.validation_stops(0.5);
  }
  MlperfLog log(path_, 15, 1);
  log.run_starts({}, 0.0);
  log.validation_starts(2, 20);
  log.validation_stops(0.5);

  EXPECT_EQ(outline(path_),
            (std::vector<std::string>{"cache_clear", "init_start", "init_stop", "run_start", "block_start 10",
                                      "block_stop 10", "eval_start 10", "eval_accuracy 10", "eval_stop 10",
                                      "block_start 20", "block_stop 20", "eval_start 20", "eval_accuracy 20",
                                      "eval_stop 20"}));
}

TEST_F(MlperfLogFile, BeginsWhereAResumedRunHasNone) {
  MlperfLog log(path_, 15, 1);
  log.run_starts({}, 0.0);
  EXPECT_EQ(outline(path_),
            (std::vector<std::string>{"cache_clear", "init_start", "init_stop", "run_start"}));
}

TEST_F(MlperfLogFile, GoesOnBehindAnEndWithoutTheTargetWhereTheRunIsExtended) {
  const auto go_on = [&](std::int64_t resumed, std::int64_t step, bool reached) {
    MlperfLog log(path_, resumed, resumed / 10);
    log.run_starts({}, 0.0);
    log.validation_starts(step / 10, step);
    log.validation_stops(0.5);
    log.run_stops(reached);
    std::ifstream file(path_);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string aborted = go_on(0, 10, false);
  EXPECT_EQ(go_on(10, 10, false), aborted) << "started again, with nothing left to do";
  const std::string reached = go_on(10, 20, true);
  EXPECT_EQ(reached.find("aborted"), std::string::npos);
  EXPECT_EQ(outline(path_).size(), 4U + 5U + 5U + 1U);
  EXPECT_EQ(outline(path_).back(), "run_stop 20");
  EXPECT_EQ(go_on(20, 30, true), reached) << "nothing is added behind the target";
}

TEST_F(MlperfLogFile, KeepsItsLinesWhereTheyCannotBeWrittenUntilTheEnd) {
  MlperfLog log(folder_.path("run/mlperf.log"), 0, 0);
  log.run_starts(facts_, 0.0);
  std::filesystem::remove_all(folder_.path("run"));
  std::ofstream(folder_.path("run")) << "no folder";
  log.validation_starts(1, 10);
  log.validation_stops(0.25);
  log.run_stops(true);
  EXPECT_THROW(log.write(), UserError);
  std::filesystem::remove(folder_.path("run"));
  log.write();
  EXPECT_EQ(events(folder_.path("run/mlperf.log")).back().at("key"), "run_stop");
}

}  // namespace
}  // namespace flotilla
