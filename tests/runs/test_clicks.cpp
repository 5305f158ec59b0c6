// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/row_file.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Click models as a user runs them: synthetic logs, other numbers of servers, kills, exported and imported
// weights.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class ClickRuns : public testing::Test {
 protected:
  ClickRuns() {
    made_ = run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "6000", "--valid-rows", "2000",
                 "--seed", "7", "--output", folder_.path("train.tsv")});
  }

  Texts arguments(const std::string& output, const Texts& more) const {
    Texts all = {"train",
                 source_path("inputs/ctr_dnn_criteo.toml"),
                 "run.output=" + folder_.path(output),
                 "data.train.path=" + folder_.path("train.tsv"),
                 "data.validation.path=" + folder_.path("train.valid.tsv"),
                 "device.threads=1",
                 "model.widths=[32,16]",
                 "server.mode=sync",
                 "train.batch_size=100",
                 "run.log_every=10",
                 "schedule.learning_rate=0.002",
                 "data.hash_buckets=5000"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static Texts of_servers(int servers) {
    return {"roles.kind=ratio", "roles.servers=" + std::to_string(servers)};
  }
  struct Rows {
    std::vector<std::uint64_t> keys;
    std::vector<float> values;
    friend bool operator==(const Rows&, const Rows&) = default;
  };
  /// The rows of all servers, as `flotilla export` writes them.
  Rows rows(const std::string& output) const {
    const std::string path = folder_.path(output + ".h5");
    const Result result = run({FLOTILLA_EXECUTABLE, "export", folder_.path(output), path});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    Rows all;
    RowFileReader file(path);
    for (RowPiece piece = file.next(0); !piece.keys.empty(); piece = file.next(0)) {
      all.keys.insert(all.keys.end(), piece.keys.begin(), piece.keys.end());
      all.values.insert(all.values.end(), piece.values.begin(), piece.values.end());
    }
    EXPECT_FALSE(all.keys.empty());
    return all;
  }
  void train(const std::string& output, int servers, int workers, const Texts& more) {
    Texts all = arguments(output, of_servers(servers));
    all.insert(all.end(), more.begin(), more.end());
    const Result result = flotilla(servers + workers, all);
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  std::vector<float> dense(const std::string& output) const {
    return final_model(folder_.path(output)).values;
  }
  double auc(const std::string& output) const {
    return last_metrics(folder_.path(output), "validation").at("auc").get<double>();
  }

  TemporaryFolder folder_;
  Result made_;
};

/// Keys for a loss scale that overflows every few steps.
Texts float16() {
  return {"device.kind=reference",
          "device.precision=float16",
          "device.loss_scale.initial=16777216",
          "device.loss_scale.growth_every=7",
          "device.loss_scale.backoff=0.5",
          "device.loss_scale.backoff_every=1"};
}

TEST_F(ClickRuns, AreCheckedWithTheirValidationData) {
  ASSERT_EQ(made_.exit_code, 0) << made_.errors;

  const Result result = flotilla(2, arguments("checked", {"--check"}));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_TRUE(contains(result.output, "the deck is good")) << result.output;
}

TEST_F(ClickRuns, GoOnWithOtherServersToTheSameBits) {
  ASSERT_EQ(made_.exit_code, 0) << made_.errors;
  train("whole", 3, 1, {"train.steps=45"});
  train("parts", 3, 1, {"train.steps=15"});
  train("parts", 2, 1, {"train.steps=30"});
  train("parts", 5, 1, {"train.steps=45"});

  EXPECT_EQ(dense("parts"), dense("whole"));
  EXPECT_EQ(rows("parts"), rows("whole"));
}

/// No exchange is in progress after a checkpoint.
TEST_F(ClickRuns, GoOnWithAPipelineToTheSameBits) {
  ASSERT_EQ(made_.exit_code, 0) << made_.errors;
  const auto until = [&](const std::string& output, int servers, const std::string& steps) {
    train(output, servers, 1,
          {"server.mode=async", "server.pipeline=1", "checkpoint.every=15", "train.steps=" + steps});
  };
  until("whole", 3, "45");
  until("parts", 3, "15");
  until("parts", 2, "30");
  until("parts", 5, "45");

  EXPECT_EQ(dense("parts"), dense("whole"));
  EXPECT_EQ(rows("parts"), rows("whole"));
}

TEST_F(ClickRuns, GoOnWithWhatAGeoWorkerKeepsOfRows) {
  ASSERT_EQ(made_.exit_code, 0) << made_.errors;
  const Texts geo = {"server.mode=geo", "server.push_every=4", "optimizer.kind=adam"};
  const auto steps = [&](const std::string& number) {
    Texts more = geo;
    more.push_back("train.steps=" + number);
    return more;
  };
  Texts whole = steps("45");
  whole.push_back("checkpoint.every=15");  // workers push before each
  train("whole", 2, 1, whole);
  train("parts", 2, 1, steps("15"));
  train("parts", 1, 1, steps("30"));
  train("parts", 3, 1, steps("45"));

  EXPECT_EQ(dense("parts"), dense("whole"));
  EXPECT_EQ(rows("parts"), rows("whole"));
}

TEST_F(ClickRuns, GoOnInFloat16WithWhatAGeoWorkerKeepsOfRows) {
  const auto until = [&](const std::string& steps) {
    Texts more = float16();
    more.insert(more.end(), {"server.mode=geo", "server.push_every=4", "optimizer.kind=adam",
                             "checkpoint.every=15", "train.steps=" + steps});
    return more;
  };
  train("whole", 2, 1, until("45"));
  train("parts", 2, 1, until("15"));
  train("parts", 1, 1, until("45"));

  EXPECT_GT(last_metrics(folder_.path("whole"), "end").at("skipped_steps").get<int>(), 0);
  EXPECT_EQ(dense("parts"), dense("whole"));
  EXPECT_EQ(rows("parts"), rows("whole"));
}

TEST_F(ClickRuns, LearnNoRowsFromAStepThatOverflows) {
  for (const std::string mode : {"sync", "async", "geo"}) {
    Texts all = arguments(mode, of_servers(1));
    for (const std::string& key : float16()) all.push_back(key);
    all.insert(all.end(), {"server.mode=" + mode, "train.steps=100"});
    if (mode == "geo") all.emplace_back("server.push_every=4");

    const Result result = flotilla(3, all);

    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_GT(last_metrics(folder_.path(mode), "end").at("skipped_steps").get<int>(), 0) << mode;
    EXPECT_LT(last_metrics(folder_.path(mode), "end").at("skipped_steps").get<int>(), 50) << mode;
    EXPECT_EQ(result.output.find("not finite"), std::string::npos) << result.output;
    EXPECT_GT(auc(mode), 0.6) << mode;
  }
}

// All workers leave that save out: otherwise each would from then on exchange its parts of one save with
// those of another.
TEST_F(ClickRuns, LoseNoOtherCheckpointOfGeoWorkersWhereAServerCannotSave) {
  const auto until = [&](const std::string& steps) {
    Texts all = arguments("run", of_servers(1));
    all.insert(all.end(),
               {"server.mode=geo", "server.push_every=4", "train.batch_size=20", "run.watchdog_s=20",
                "checkpoint.every=10", "checkpoint.keep=1", "train.steps=" + steps});
    return all;
  };
  const std::string checkpoints = folder_.path("run/checkpoints");
  fs::create_directories(checkpoints + "/step-00000020.parts/server-0000.h5");  // in the place of the file

  const Result result = flotilla(3, until("40"));
  const Result resumed = flotilla(3, until("50"));

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.errors, "was not saved"), 1) << result.errors;
  EXPECT_NE(result.errors.find("the checkpoint of step 20 was not saved: server 0: cannot write"),
            std::string::npos)
      << result.errors;
  EXPECT_EQ(metrics(folder_.path("run"), "checkpoint").size(), 4U);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find("step-00000040.h5, step 40,"), std::string::npos) << resumed.output;
  EXPECT_EQ(resumed.errors.find("warning"), std::string::npos) << resumed.errors;
}

TEST_F(ClickRuns, GoOnWithOtherGeoWorkers) {
  const Texts geo = {"server.mode=geo", "server.push_every=4", "optimizer.kind=adagrad",
                     "schedule.learning_rate=0.02"};
  const auto epochs = [&](const std::string& number, const std::string& batch) {
    Texts more = geo;
    more.insert(more.end(), {"train.epochs=4", "train.steps=" + number, "train.batch_size=" + batch});
    return more;
  };
  train("run", 1, 2, epochs("100", "50"));
  train("run", 2, 1, epochs("240", "100"));

  EXPECT_GT(auc("run"), 0.70);
}

TEST_F(ClickRuns, GoOnAfterAKillFromTheirLastCheckpoint) {
  train("whole", 1, 1, {"train.steps=60"});
  Texts killed = arguments("killed", of_servers(1));
  killed.insert(killed.end(), {"train.epochs=0", "train.steps=1000000", "checkpoint.every=20"});
  {
    Program program(flotilla_command(2, killed));
    while (metrics(folder_.path("killed"), "checkpoint").empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    for (const pid_t rank : rank_processes(program.pid(), 2)) kill(rank, SIGKILL);
    program.wait();
  }
  // Resumes from the first checkpoint to the step at which the whole run ended.
  const std::string first = folder_.path("killed") + "/checkpoints/step-00000020.h5";
  ASSERT_TRUE(fs::exists(first) || fs::exists(folder_.path("killed") + "/checkpoints/step-00000040.h5"));
  const auto newest = find_newest_good(folder_.path("killed"), [](const std::string&) {});
  ASSERT_TRUE(newest);
  const std::int64_t step = read_checkpoint(*newest).state.step;
  if (step > 60) GTEST_SKIP() << "the machine was too slow to kill the run before step " << step;

  train("killed", 1, 1, {"train.steps=60"});

  EXPECT_EQ(dense("killed"), dense("whole"));
  EXPECT_EQ(rows("killed"), rows("whole"));
}

TEST_F(ClickRuns, PredictClicks) {
  train("sync", 1, 1, {"train.epochs=4"});
  train("async", 2, 2, {"train.epochs=4", "server.mode=async", "train.batch_size=50"});
  train("geo", 2, 2, {"train.epochs=4", "server.mode=geo", "server.push_every=5", "train.batch_size=50"});

  EXPECT_GT(auc("sync"), 0.70);
  EXPECT_GT(auc("async"), 0.70);
  EXPECT_GT(auc("geo"), 0.70);
  const Result evaluated = flotilla(2, {"evaluate", folder_.path("sync")});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  EXPECT_NE(evaluated.output.find("auc "), std::string::npos) << evaluated.output;
}

TEST_F(ClickRuns, BeginWithTheRowsOfAnExportedModel) {
  train("first", 2, 1, {"train.epochs=4"});
  rows("first");

  train("second", 1, 1,
        {"train.epochs=0", "train.steps=1", "schedule.learning_rate=1e-12",
         "model.initial_weights=" + folder_.path("first.h5")});

  EXPECT_TRUE(test::within(auc("second"), auc("first"), 1e-4));
}

TEST_F(ClickRuns, NameTheLineThatIsBad) {
  std::string text = read_file(folder_.path("train.tsv"));
  text.insert(text.find('\n', text.size() / 2) + 1, "1\tthree\tcolumns\n");
  write_file(folder_.path("train.tsv"), text);

  const Result result = flotilla(2, arguments("run", {"train.epochs=1"}));

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("train.tsv:"), std::string::npos) << result.errors;
}

TEST_F(ClickRuns, RefuseWhatClickModelsCannotDo) {
  struct Case {
    Texts more;
    std::string says;
  };
  const std::vector<Case> cases = {{{"strategy.kind=all-reduce"}, "parameter-server"},
                                   {{"optimizer.kind=lamb"}, "lamb"},
                                   {{"train.accumulate_steps=2"}, "train.accumulate_steps"},
                                   {{"model.kind=mlp", "model.classes=2"}, "ctr-dnn"}};
  for (const Case& one : cases) {
    const Result result = flotilla(2, arguments("run", one.more));

    EXPECT_EQ(result.exit_code, 2) << one.says << result.errors;
    EXPECT_NE(result.errors.find(one.says), std::string::npos) << result.errors;
  }
}

}  // namespace
}  // namespace flotilla::test
