// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// flotilla forecast, as a user starts it.

namespace flotilla::test {
namespace {

using Texts = std::vector<std::string>;

const std::string deck =
    "[model]\nwidths = [16]\nclasses = 2\n[data]\nkind = \"random\"\nshape = [6]\ntrain.samples = 320\n"
    "[train]\nepochs = 3\nbatch_size = 32\n[schedule]\nlearning_rate = 0.1\n[device]\nthreads = 1\n"
    "[strategy]\nkind = \"local-sgd\"\nperiod = 4\n[checkpoint]\nevery = 10\nevery_s = 0\n";

class Forecast : public testing::Test {
 protected:
  Forecast() {
    write_file(path("deck.toml"), deck);
    // Two ranks whose steps take 1 and 2 ms in turn, the one when the other does not. 256,000 bytes of
    // gradients.
    write_file(
        path("step.json"),
        R"({"workers": 2, "hosts": 1, "global_batch_size": 64, "steps": 4, "samples": 320, "saves": 2, "cores": 4, "threads": 1,
                   "checkpoint_stall_us": 50, "memory_bytes": 1000000, "leading_floats": 16,
                   "tensors": [31984, 32000], "backward_us": 1000, "optimizer_us": 100,
                   "step_mean_us": 2440,
                   "own_us": [[1000, 2000, 1000, 2000], [2000, 1000, 2000, 1000]]})");
    write_file(path("sums.json"),
               R"([{"ranks": 2, "hosts": 1, "algorithm": "mpi", "wire": "float32", "communicators": 1,
                    "bytes": 256000, "in_place": true, "time_us": 400},
                   {"ranks": 2, "hosts": 1, "algorithm": "shared-memory", "wire": "float32", "communicators": 1,
                    "bytes": 256000, "in_place": true, "time_us": 100}])");
    write_file(path("input.json"), R"({"workers": 2, "samples_per_s": 64000})");
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  Texts with_files(Texts more) const {
    Texts all = {"forecast",     path("deck.toml"), "--step",  path("step.json"),
                 "--all-reduce", path("sums.json"), "--input", path("input.json")};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

 private:
  TemporaryFolder folder_;
};

/// The contents of all files below a folder.
std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    files[entry.path()] = entry.is_regular_file() ? read_file(entry.path()) : "";
  return files;
}

TEST_F(Forecast, MeasuresHereAndLeavesTheFolderOfTheRunUntouched) {
  const std::string output = "run.output=" + path("run");
  ASSERT_EQ(flotilla(1, {"train", path("deck.toml"), output, "train.steps=2"}).exit_code, 0);
  const auto before = files_below(path("run"));

  const Result result = flotilla(2, {"forecast", path("deck.toml"), output, "--hosts", "1,2",
                                     "--ranks-per-host", "2", "--network", "30,1", "--periods", "4"});

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  for (const char* row :
       {"mpi, buckets of 32 MiB", "mpi, local SGD, period 4", "hierarchical, local SGD, period 4",
        "synchronous servers, 2", "most samples/s on 4 ranks: "})
    EXPECT_TRUE(contains(result.output, row)) << row << " in " << result.output;
  EXPECT_EQ(files_below(path("run")), before);
}

TEST_F(Forecast, ReckonsWithFilesOfAnotherMachine) {
  const Result result = flotilla(1, with_files({"--hosts", "1,2", "--ranks-per-host", "2", "--network",
                                                "50,1.024", "--periods", "4", "--json", path("table.json")}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  std::map<std::string, nlohmann::json> rows;
  for (const auto& row : nlohmann::json::parse(read_file(path("table.json"))))
    rows[row.at("hosts").dump() + " " + row.at("strategy").get<std::string>()] = row;
  const auto microseconds = [&](const std::string& row, const char* part) {
    return rows.at(row).at(part).get<double>();
  };
  // Each step waits for the slower rank, four of them for none; a synchronisation takes 40 µs more than
  // alone; saving takes 100 µs in ten steps.
  const std::string flat = "1 mpi, buckets of 32 MiB";
  EXPECT_TRUE(within(microseconds(flat, "compute_us"), 1500.0, 1e-6));
  EXPECT_TRUE(within(microseconds(flat, "slowest_us"), 500.0, 1e-6));
  EXPECT_TRUE(within(microseconds(flat, "exposed_us"), 440.0, 1e-6));
  EXPECT_TRUE(within(microseconds(flat, "saving_us"), 10.0, 1e-6));
  EXPECT_TRUE(within(microseconds(flat, "step_us"), 2450.0, 1e-6));
  EXPECT_TRUE(within(rows.at(flat).at("epoch_s").get<double>(), 5 * 2450e-6, 1e-12));
  EXPECT_TRUE(within(rows.at(flat).at("run_s").get<double>(), 15 * 2450e-6, 1e-12));
  EXPECT_EQ(rows.at(flat).at("host_memory_bytes"), 2e6);
  EXPECT_EQ(rows.at(flat).at("bound_by"), "compute");
  EXPECT_TRUE(within(microseconds("1 mpi, local SGD, period 4", "step_us"), 1500.0 + 110.0 + 10.0, 1e-6));
  // 256,000 bytes take 2,000 µs between two hosts, and two messages 100.
  EXPECT_TRUE(within(microseconds("2 mpi, buckets of 32 MiB", "exposed_us"), 440.0 + 2100.0, 1e-6));
  EXPECT_TRUE(within(microseconds("2 hierarchical, buckets of 32 MiB", "exposed_us"), 140.0 + 2100.0, 1e-6));
  EXPECT_EQ(rows.at("2 mpi, buckets of 32 MiB").at("bound_by"), "exposed");
  // One server: it updates all.
  EXPECT_TRUE(within(microseconds("1 synchronous servers, 1", "step_us"), 1550.0, 1e-6));
}

TEST_F(Forecast, WaitsForInputThatIsSlowerThanTheStep) {
  write_file(path("input.json"), R"({"workers": 2, "images_per_s": 6400})");
  const Result result =
      flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "2", "--json", path("t.json")}));
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto row = nlohmann::json::parse(read_file(path("t.json"))).at(0);
  EXPECT_TRUE(within(row.at("input_us").get<double>(), 10000.0 - 2440.0, 1e-6));
  EXPECT_EQ(row.at("bound_by"), "input");

  // Without a core of its own reading takes those that compute: it is hidden by waiting alone.
  std::string step = read_file(path("step.json"));
  step.replace(step.find("\"cores\": 4"), 10, "\"cores\": 3");
  write_file(path("step.json"), step);
  ASSERT_EQ(
      flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "2", "--json", path("t.json")})).exit_code,
      0);
  const auto shared = nlohmann::json::parse(read_file(path("t.json"))).at(0);
  EXPECT_TRUE(within(shared.at("input_us").get<double>(), 10000.0 - 940.0, 1e-6));
}

TEST_F(Forecast, SaysWhatIsMissingOrWrong) {
  expect_told(flotilla(1, with_files({"--hosts", "0", "--ranks-per-host", "2"})), "--hosts: ");
  expect_told(flotilla(1, with_files({"--hosts", "2", "--ranks-per-host", "2"})),
              "give --network LATENCY_US,GBIT_S");
  expect_told(flotilla(1, with_files({"--hosts", "2", "--ranks-per-host", "2", "--network", "30"})),
              "--network: ");
  expect_told(flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "3"})),
              "no all-reduce of 3 ranks on one host was measured");
  expect_told(flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "2", "--json", path("step.json")})),
              path("step.json"));
  std::string step = read_file(path("step.json"));
  write_file(path("step.json"), step.replace(step.find("[1000, 2000, "), 13, "["));
  expect_told(flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "2"})),
              "equally many of each rank");
  write_file(path("step.json"), "{}");
  expect_told(flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "2"})), "own_us");
  write_file(path("step.json"), "no JSON");
  expect_told(flotilla(1, with_files({"--hosts", "1", "--ranks-per-host", "2"})),
              path("step.json") + " is no JSON file of flotilla bench");
}

}  // namespace
}  // namespace flotilla::test
