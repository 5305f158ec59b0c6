// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/runs/program.hpp"

// flotilla compare: several trainings in one job, each as if it were alone.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

const Texts local_sgd = {"strategy.kind=local-sgd", "strategy.period=4", "optimizer.kind=sgd"};
const Texts served = {"strategy.kind=parameter-server", "roles.kind=ratio", "roles.servers=1"};

/// "[[run]]" with these overrides.
std::string run_text(const std::string& name, const Texts& set) {
  std::string text = "[[run]]\nname = \"" + name + "\"\nset = [";
  for (const std::string& each : set) text += "\"" + each + "\", ";
  return text + "]\n";
}

class Compare : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_.path(name); }
  /// Writes a plan of the digits. @param lines before its runs
  std::string plan(const std::string& lines, const std::string& runs) const {
    const std::string file = path("plan.toml");
    write_file(file, "deck = \"" + source_path("inputs/mnist_mlp.toml") + "\"\n" + lines +
                         "set = [\"train.global_batch_size=100\", \"model.widths=16\", \"device.threads=1\", "
                         "\"run.log_every=10\"]\n" +
                         runs);
    return file;
  }
  Texts command(const std::string& file, const std::string& output, const Texts& overrides) const {
    Texts all = {"compare", file, "run.output=" + path(output)};
    all.insert(all.end(), overrides.begin(), overrides.end());
    return all;
  }
  nlohmann::json results(const std::string& output) const {
    return nlohmann::json::parse(read_file(path(output + "/compare.json")));
  }
  Snapshot model(const std::string& run) const { return final_model(path(run)); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Compare, TrainsEachRunWithEachSeedToTheBitsOfTrain) {
  const std::string file = plan("seeds = 2\n", run_text("local", local_sgd) + run_text("served", served));

  const Result result = flotilla(2, command(file, "all", {"train.epochs=0", "train.steps=40"}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  for (const std::string run : {"local", "served"}) {
    for (const std::string seed : {"1", "2"}) {
      const std::string alone = run + seed;
      Texts train = {"train",
                     source_path("inputs/mnist_mlp.toml"),
                     "run.seed=" + seed,
                     "run.output=" + path(alone),
                     "train.epochs=0",
                     "train.steps=40",
                     "model.widths=16",
                     "train.global_batch_size=100",
                     "device.threads=1",
                     "run.log_every=10"};
      const Texts& own = run == "local" ? local_sgd : served;
      train.insert(train.end(), own.begin(), own.end());
      ASSERT_EQ(flotilla(2, train).exit_code, 0);
      EXPECT_EQ(model("all/" + run + "/seed-" + seed).values, model(alone).values) << alone;
    }
  }
  const nlohmann::json json = results("all");
  ASSERT_EQ(json.at("runs").size(), 2U);
  for (const auto& run : json.at("runs")) {
    EXPECT_EQ(run.at("final").at("seeds"), 2) << run;
    EXPECT_FALSE(run.at("final").at("standard_error").is_null());
    for (const auto& training : run.at("trainings")) EXPECT_EQ(training.at("samples"), 4000);
  }
  EXPECT_EQ(count(read_file(path("all/compare.md")), "\n| local "), 1);
  EXPECT_TRUE(fs::exists(path("all/compare.html")));
  EXPECT_EQ(count(result.output, "± "), count(read_file(path("all/compare.md")), "± "));

  const Result again = flotilla(2, command(file, "all", {"train.epochs=0", "train.steps=40"}));
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(count(again.output, "comparison   "), 0) << "all have ended before";
  const Result other = flotilla(2, command(file, "all", {"train.epochs=0", "train.steps=41"}));
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_EQ(count(other.errors, " holds a run of another deck (steps = 40, now steps = 41)"), 4)
      << other.errors;
}

TEST_F(Compare, StartsItsRanksWhereNoLauncherDid) {
  const std::string file = plan("", run_text("flat", {}));
  fs::create_directory(path("bin"));
  fs::create_symlink(FLOTILLA_MPIEXEC, path("bin/mpirun"));
  const std::string search = "PATH=" + path("bin") + ":/usr/bin:/bin";
  Texts words = command(file, "all", {"train.epochs=0", "train.steps=4", "--ranks", "2"});
  words.insert(words.begin(), FLOTILLA_EXECUTABLE);

  const Result result = run(in_environment({search}, words));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(results("all").at("command").get<std::string>().find("mpirun -n 2 "), std::string::npos);
  const Result three = flotilla(2, command(file, "other", {"--ranks=3"}));
  EXPECT_EQ(three.exit_code, 2);
  EXPECT_NE(three.errors.find("--ranks 3, but the launcher started 2: "), std::string::npos) << three.errors;
  const Result one = flotilla(1, command(file, "other", {"--ranks=3"}));
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_NE(one.errors.find("leave out one of the two"), std::string::npos) << one.errors;
  const Result none = run(in_environment({"PATH=" + path("none")}, words));
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_NE(none.errors.find("cannot start mpirun"), std::string::npos) << none.errors;
}

TEST_F(Compare, GivesAllRunsOfASeedOneInitialModel) {
  Texts on_servers = served;
  on_servers.insert(on_servers.end(), {"server.mode=async"});
  const std::string file = plan(
      "seeds = 2\n", run_text("flat", {}) + run_text("local", local_sgd) + run_text("served", on_servers));

  const Result result = flotilla(2, command(file, "all",
                                            {"train.epochs=0", "train.steps=1", "optimizer.kind=sgd",
                                             "schedule.learning_rate=1.2e-38"}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const auto parameters = model("all/flat/seed-1").values;
  EXPECT_EQ(model("all/local/seed-1").values, parameters);
  EXPECT_EQ(model("all/served/seed-1").values, parameters);
  EXPECT_NE(model("all/flat/seed-2").values, parameters);
}

TEST_F(Compare, GoesOnAfterAStopToEqualResults) {
  const std::string file = plan("", run_text("flat", {}) + run_text("local", local_sgd));
  const Texts length = {"train.epochs=8"};
  ASSERT_EQ(flotilla(2, command(file, "whole", length)).exit_code, 0);

  Program program(flotilla_command(2, command(file, "cut", length)));
  for (int i = 0; i < 3000 && metrics(path("cut/local/seed-1"), "step").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(program.pid(), SIGUSR1);
  const Result stopped = program.wait();
  ASSERT_EQ(stopped.exit_code, 75) << stopped.errors;
  EXPECT_NE(stopped.output.find("stopped in training 2 of 2; start the command again to go on"),
            std::string::npos)
      << stopped.output;
  EXPECT_FALSE(fs::exists(path("cut/compare.json")));

  const Result alone = flotilla(1, command(file, "cut", length));
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_EQ(count(alone.errors, " holds a run of 2 workers, and this job has 1: "), 2) << alone.errors;

  const Result resumed = flotilla(2, command(file, "cut", length));

  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(count(resumed.output, "comparison   "), 1) << "the first run has ended before";
  for (const std::string run : {"flat", "local"}) {
    EXPECT_EQ(model("cut/" + run + "/seed-1").values, model("whole/" + run + "/seed-1").values);
    EXPECT_EQ(last_metrics(path("cut/" + run + "/seed-1"), "validation").at("accuracy_top1"),
              last_metrics(path("whole/" + run + "/seed-1"), "validation").at("accuracy_top1"));
  }
}

TEST_F(Compare, IsToBeSubmittedAgainWhereSlurmsLimitComesAtTheStartOfALaterTraining) {
  const std::string file = plan("", run_text("fits", {}) + run_text("does not", {"run.stop_margin_s=20000"}));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto end_s = std::chrono::duration_cast<std::chrono::seconds>(now).count() + 10'000;
  Texts in_slurm = command(file, "all", {"train.epochs=1"});
  in_slurm.insert(in_slurm.begin(), FLOTILLA_EXECUTABLE);
  in_slurm = in_environment({"SLURM_JOB_ID=7", "SLURM_JOB_END_TIME=" + std::to_string(end_s)}, in_slurm);

  const Result first = run(in_slurm);
  EXPECT_EQ(first.exit_code, 75) << first.errors;
  EXPECT_EQ(count(first.errors, "will not help"), 0) << first.errors;
  EXPECT_EQ(last_metrics(path("all/does_not/seed-1"), "end").at("reason"), "time limit");

  const Result second = run(in_slurm);
  EXPECT_EQ(second.exit_code, 2) << "nothing advanced but by one step";
  EXPECT_EQ(count(second.errors, "resubmitting unchanged will not help"), 1) << second.errors;
}

TEST_F(Compare, ShowsWhatDivergesAsARowAndGoesOn) {
  // One training diverges on all workers at one step, the other on one worker between two averagings.
  const Texts hot = {"schedule.learning_rate=1e30"};
  Texts alone = local_sgd;
  alone.insert(alone.end(), {"schedule.learning_rate=1e30", "strategy.period=50"});
  const std::string file =
      plan("", run_text("hot", hot) + run_text("hot, alone", alone) + run_text("good", {}));

  const Result result = flotilla(2, command(file, "all", {"train.epochs=1"}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json runs = results("all").at("runs");
  EXPECT_EQ(runs.at(0).at("trainings").at(0).at("failure"), "diverged");
  EXPECT_EQ(runs.at(1).at("trainings").at(0).at("failure"), "diverged");
  EXPECT_TRUE(runs.at(2).at("trainings").at(0).at("failure").is_null());
  EXPECT_EQ(runs.at(2).at("final").at("seeds"), 1);
  EXPECT_EQ(count(result.errors, "training diverged, nothing more was saved"), 2) << result.errors;
  EXPECT_EQ(last_metrics(path("all/hot/seed-1"), "end").at("reason"), "diverged");
  EXPECT_LT(last_metrics(path("all/hot_alone/seed-1"), "end").at("step"), 50) << "it waited for an averaging";
  EXPECT_EQ(count(flotilla(2, command(file, "all", {"train.epochs=1"})).output, "comparison   "), 0);
}

TEST_F(Compare, RefusesTrainingsOnFilesWhoseContentsHaveChanged) {
  Bytes pixels = images(40, 4, 4);
  save(path("images"), pixels);
  save(path("labels"), labels(40, 10));
  save(path("held out"), images(20, 4, 4));
  save(path("held out labels"), labels(20, 10));
  const Texts data = {"train.epochs=1",
                      "train.global_batch_size=20",
                      "data.train.images=" + path("images"),
                      "data.train.labels=" + path("labels"),
                      "data.validation.images=" + path("held out"),
                      "data.validation.labels=" + path("held out labels")};
  const std::string both = run_text("one", {}) + run_text("two", {"optimizer.kind=sgd"});
  const Result first = flotilla(1, command(plan("", run_text("one", {})), "all", data));
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  EXPECT_TRUE(last_metrics(path("all/one/seed-1"), "start").contains("validation_data"));

  // One byte, under the same name: before the second run begins, and after it has ended with it.
  pixels.back() ^= 1U;
  save(path("images"), pixels);
  const std::string refused = "all/one/seed-1 holds a run on other samples (data.train: 40 samples, xxh3 ";
  const Result changed = flotilla(1, command(plan("", both), "all", data));
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_EQ(count(changed.errors, refused), 1) << changed.errors;
  EXPECT_FALSE(fs::exists(path("all/two")));
  ASSERT_EQ(flotilla(1, command(plan("", run_text("two", {"optimizer.kind=sgd"})), "all", data)).exit_code,
            0);
  const Result ended = flotilla(1, command(plan("", both), "all", data));
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(count(ended.errors, " holds a run on other samples "), 1) << ended.errors;
  EXPECT_EQ(count(ended.errors, refused), 1) << ended.errors;
  EXPECT_EQ(count(ended.errors, " now): remove that folder, or give the plan another output"), 1)
      << ended.errors;

  fs::remove(path("images"));
  const Result gone = flotilla(1, command(plan("", both), "all", data));
  EXPECT_EQ(gone.exit_code, 2);
  EXPECT_EQ(count(gone.errors, "all/two/seed-1 holds a run on other samples "), 1) << gone.errors;

  // With the samples as before the run is compared.
  pixels.back() ^= 1U;
  save(path("images"), pixels);
  fs::remove_all(path("all/two"));
  const Result whole = flotilla(1, command(plan("", both), "all", data));
  EXPECT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_EQ(count(whole.output, "comparison   "), 1) << whole.output;
}

TEST_F(Compare, FindsAMistakeOfTheLastRunBeforeItTrainsTheFirst) {
  const std::string file =
      plan("", run_text("one", {}) + run_text("two", {}) + run_text("three", {"strategy.kind=local-sdg"}) +
                   run_text("four", {"train.global_batch_size=99"}));

  const Result result = flotilla(2, command(file, "all", {}));

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("the plan has 2 mistakes"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find("plan.toml:11:8: strategy.kind must be one of"), std::string::npos)
      << result.errors;
  EXPECT_NE(result.errors.find("run \"four\": train.global_batch_size = 99 cannot be divided by 2 workers"),
            std::string::npos)
      << result.errors;
  EXPECT_FALSE(fs::exists(path("all")));
}

TEST_F(Compare, TrainsEachRunForEquallyLong) {
  const std::string file = plan("equal = \"time\"\nseconds = 0.4\n",
                                run_text("flat", {"schedule.kind=constant"}) + run_text("local", local_sgd));
  fs::create_directories(path("all/compare.html"));

  const Result result = flotilla(2, command(file, "all", {}));

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.errors, "flotilla: warning: no page of the curves: "), 1) << result.errors;
  EXPECT_EQ(count(result.output, "\n| local "), 1) << result.output;
  const auto json = results("all");
  for (const auto& run : json.at("runs")) {
    EXPECT_GE(run.at("seconds").at("mean"), 0.4);
    EXPECT_EQ(run.at("final").at("seeds"), 1) << "a validation at the end";
    const std::string folder = run.at("trainings").at(0).at("folder");
    EXPECT_EQ(last_metrics(folder, "end").at("reason"), "done");
    EXPECT_EQ(last_metrics(folder, "validation").at("step"), last_metrics(folder, "end").at("step"));
  }
}

}  // namespace
}  // namespace flotilla::test
