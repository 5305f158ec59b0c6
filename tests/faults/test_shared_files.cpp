// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "tests/data/images/image_files.hpp"
#include "tests/faults/small_run.hpp"
#include "tests/runs/program.hpp"

// How many calls on shared files a job makes, by its number of ranks: a thousand ranks that ask for
// everything overload a file system.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

/// Calls of all ranks by their words: "open", "stat".
using Calls = std::map<std::string, int>;

class SharedFiles : public testing::Test {
 protected:
  enum class OfRanks { all, root };
  /// The calls on paths that begin with `below`, in a job that trains with these keys.
  /// @param before a folder that the run's folder begins as a copy of; empty: there is none
  Calls calls(int ranks, const std::vector<std::string>& keys, const std::string& below,
              const std::string& before = {}, OfRanks of = OfRanks::all) const {
    const std::string list = folder_.path("calls");
    fs::remove_all(list);
    fs::create_directory(list);
    fs::remove_all(output());
    if (fs::exists(before)) fs::copy(before, output(), fs::copy_options::recursive);
    const Result result =
        run(with_library(flotilla_command(ranks, keys), FAIL_AT_CALL, {"FLOTILLA_TEST_CALLS=" + list}));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    Calls found;
    for (int rank = 0; rank < (of == OfRanks::all ? ranks : 1); ++rank) {
      std::istringstream lines(read_file(list + "/rank-" + std::to_string(rank)));
      for (std::string line; std::getline(lines, line);) {
        std::string word;
        std::string number;
        std::string place;
        std::string site;
        std::string about;
        std::istringstream(line) >> word >> number >> place >> site >> about;
        if (about.starts_with(below)) ++found[word];
      }
    }
    return found;
  }
  std::string output() const { return folder_.path("run"); }
  /// 48 images of two classes for training and as many for validation.
  /// @returns the folder of "train" and "val"
  std::string write_images() const {
    const std::string images = folder_.path("images");
    for (const char* part : {"train", "val"})
      for (const char* name : {"a", "b"}) {
        fs::create_directories(images + "/" + part + "/" + name);
        for (int k = 0; k < 24; ++k) {
          const Bytes image = png(pattern(20 + k, 17 + (*part == 'v' ? 1 : 0)));
          write_file(images + "/" + part + "/" + name + "/" + std::to_string(k) + ".png",
                     {image.begin(), image.end()});
        }
      }
    return images;
  }
  /// 48 rows for training and as many for validation. @returns the folder of "train.csv" and "val.csv"
  std::string write_tables() const {
    const std::string tables = folder_.path("tables");
    fs::create_directory(tables);
    std::string text = "x,y,label\n";
    for (int k = 0; k < 48; ++k) text += std::to_string(k) + ",0.5," + std::to_string(k % 2) + "\n";
    for (const char* name : {"/train.csv", "/val.csv"}) write_file(tables + name, text);
    return tables;
  }
  /// Writes a deck, and trains on data of this kind for a step.
  std::vector<std::string> keys(const std::string& kind, const std::string& training,
                                const std::string& validation) const {
    write_file(folder_.path("deck.toml"),
               "[model]\nwidths = [8]\nclasses = 2\n[schedule]\nlearning_rate = 0.01\n"
               "[data]\nkind = \"" +
                   kind + "\"\n[train]\nglobal_batch_size = 48\nsteps = 1\n");
    return {"train", folder_.path("deck.toml"), "data.train.path=" + training,
            "data.validation.path=" + validation, "run.output=" + output()};
  }
  std::vector<std::string> image_keys(const std::string& kind, const std::string& training,
                                      const std::string& validation) const {
    std::vector<std::string> all = keys(kind, training, validation);
    for (const char* key : {"data.image_size=16", "data.short_side=16"}) all.emplace_back(key);
    return all;
  }
  /// Expects that a job looks for files as often with six ranks as with two.
  static void expect_same_stats(const Calls& few, const Calls& many) {
    EXPECT_EQ(few.contains("stat") ? few.at("stat") : 0, many.contains("stat") ? many.at("stat") : 0);
  }

  TemporaryFolder folder_;
};

TEST_F(SharedFiles, EachRankOpensAFileOfSamplesOnceAndAsksForNothingElse) {
  const std::string data = fs::canonical(source_path("inputs/data/mnist"));
  const auto keys = small_run(output(), {"train.steps=4", "train.global_batch_size=48"});

  const Calls few = calls(2, keys, data);
  const Calls many = calls(6, keys, data);

  ASSERT_GT(few.at("open"), 0);
  EXPECT_LE(many.at("open") - few.at("open"), (6 - 2) * 4);  // images and labels, of training and validation
  expect_same_stats(few, many);
}

TEST_F(SharedFiles, ARunsFolderGetsALogOfEachRank) {
  const auto keys = small_run(output(), {"train.steps=4", "train.global_batch_size=48"});

  const Calls few = calls(2, keys, output());
  const Calls many = calls(6, keys, output());

  EXPECT_LE(many.at("open") - few.at("open"), (6 - 2) * 2);  // spdlog opens a new file twice
  EXPECT_LE(many.at("stat") - few.at("stat"), (6 - 2) * 4);
}

TEST_F(SharedFiles, OneRankListsImages) {
  const std::string images = write_images();
  const auto keys = image_keys("image-folder", images + "/train", images + "/val");

  const Calls few = calls(2, keys, images);
  const Calls many = calls(6, keys, images);

  expect_same_stats(few, many);
  EXPECT_EQ(few.at("open"), many.at("open"));
}

TEST_F(SharedFiles, OneRankListsImagesOfAnEvaluation) {
  const std::string images = write_images();
  const Result trained = flotilla(1, image_keys("image-folder", images + "/train", images + "/val"));
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const std::string before = folder_.path("before");
  fs::rename(output(), before);

  const Calls few = calls(2, {"evaluate", output()}, images, before);
  const Calls many = calls(6, {"evaluate", output()}, images, before);

  expect_same_stats(few, many);
  EXPECT_EQ(few.at("open"), many.at("open"));
}

TEST_F(SharedFiles, OneRankReadsEachIndexOfShards) {
  const std::string images = write_images();
  const std::string shards = folder_.path("shards");
  for (const char* part : {"train", "val"}) {
    const Result packed =
        run({FLOTILLA_EXECUTABLE, "pack", images + "/" + part, "--output", shards + "/" + part});
    ASSERT_EQ(packed.exit_code, 0) << packed.errors;
  }
  const auto keys = image_keys("webdataset", shards + "/train", shards + "/val");

  const Calls few = calls(2, keys, shards);
  const Calls many = calls(6, keys, shards);

  expect_same_stats(few, many);
  EXPECT_LE(many.at("open") - few.at("open"), (6 - 2) * 2);  // a shard of training and of validation
}

TEST_F(SharedFiles, OneRankLooksForTables) {
  const std::string tables = write_tables();
  auto all = keys("csv", tables + "/train.csv", tables + "/val.csv");
  all.emplace_back("data.target_columns=[\"label\"]");

  const Calls few = calls(2, all, tables);
  const Calls many = calls(6, all, tables);

  ASSERT_GT(few.at("open"), 0);
  EXPECT_EQ(few, many);
}

TEST_F(SharedFiles, AComparisonConvertsATableOnce) {
  const std::string tables = write_tables();
  keys("csv", "", "");  // the deck
  const std::string plan = folder_.path("plan.toml");
  write_file(plan, "deck = \"deck.toml\"\noutput = \"" + output() +
                       "\"\nset = [\"data.target_columns=['label']\", \"data.train.path=" + tables +
                       "/train.csv\", \"data.validation.path=" + tables +
                       "/val.csv\"]\n[[run]]\nname = \"a\"\n");
  const Result compared = flotilla(1, {"compare", plan, "--quiet"});
  ASSERT_EQ(compared.exit_code, 0) << compared.errors;
  const std::string before = folder_.path("before");
  fs::rename(output(), before);

  const Calls again = calls(1, {"compare", plan, "--quiet"}, tables + "/train.csv", before);

  EXPECT_LE(again.at("open"), 5);
}

TEST_F(SharedFiles, RanksShareTheReadingOfClickLogs) {
  const std::string logs = folder_.path("logs");
  fs::create_directory(logs);
  const Result made = run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "20000", "--valid-rows", "1",
                           "--output", folder_.path("day_0")});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  for (const char* name : {"/day_0", "/day_1"}) fs::copy_file(folder_.path("day_0"), logs + name);
  const std::vector<std::string> keys = {"train",
                                         source_path("inputs/ctr_dnn_criteo.toml"),
                                         "run.output=" + output(),
                                         "data.train.path=" + logs,
                                         "data.validation.path=" + folder_.path("day_0.valid"),
                                         "device.threads=1",
                                         "model.widths=[8]",
                                         "roles.kind=ratio",
                                         "roles.servers=1",
                                         "train.global_batch_size=48",
                                         "train.steps=4",
                                         "validation.every=0",
                                         "data.hash_buckets=500"};

  const Calls few = calls(1 + 2, keys, logs);
  const Calls many = calls(1 + 8, keys, logs);

  constexpr int files = 2;
  EXPECT_LE(many.at("open") - few.at("open"), (8 - 2) * files);
  expect_same_stats(few, many);
  EXPECT_GT(few.at("read"), 30);                             // 10 MB in reads of 256 KiB
  EXPECT_LE(many.at("read") - few.at("read"), (8 - 2) * 8);  // growing ones, at the beginning of each share
}

/// Saves a run of so many ranks in a folder.
void save_run(int ranks, std::vector<std::string> keys, const std::string& folder) {
  keys.push_back("run.output=" + folder);
  const Result saved = flotilla(ranks, keys);
  ASSERT_EQ(saved.exit_code, 0) << saved.errors;
}

class SharedRowFiles : public SharedFiles {
 protected:
  void SetUp() override {
    const Result made = run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "2000", "--valid-rows",
                             "100", "--output", folder_.path("day_0")});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
  }
  std::vector<std::string> keys(int servers, int steps) const {
    return {"train",
            source_path("inputs/ctr_dnn_criteo.toml"),
            "run.output=" + output(),
            "data.train.path=" + folder_.path("day_0"),
            "data.validation.path=" + folder_.path("day_0.valid"),
            "device.threads=1",
            "model.widths=[8]",
            "roles.kind=ratio",
            "roles.servers=" + std::to_string(servers),
            "train.global_batch_size=48",
            "train.steps=" + std::to_string(steps),
            "data.hash_buckets=500",
            "run.resume_with=train.steps"};
  }
  std::string parts() const { return output() + "/checkpoints/step-00000004.parts/server-"; }
};

TEST_F(SharedRowFiles, APartIsReadByOneWorkerAndOneServer) {
  const std::string before = folder_.path("before");
  save_run(2 + 3, keys(3, 4), before);

  const Calls same = calls(2 + 3, keys(3, 8), parts(), before);
  const Calls few = calls(2 + 2, keys(2, 8), parts(), before);
  const Calls many = calls(2 + 6, keys(6, 8), parts(), before);

  ASSERT_GT(same.at("open"), 0);
  EXPECT_EQ(few, same);
  EXPECT_EQ(many, same);
}

TEST_F(SharedRowFiles, OneRankOfAnEvaluationReadsThem) {
  const std::string before = folder_.path("before");
  save_run(2 + 3, keys(3, 4), before);

  const Calls one = calls(1, {"evaluate", output()}, parts(), before);
  const Calls many = calls(6, {"evaluate", output()}, parts(), before);

  ASSERT_GT(one.at("open"), 0);
  EXPECT_EQ(many, one);
}

TEST_F(SharedFiles, AWorkersPartIsReadByThatWorker) {
  const auto keys = [&](int steps) {
    return small_run(output(), {"train.steps=" + std::to_string(steps), "train.global_batch_size=48",
                                "strategy.kind=local-sgd", "strategy.period=100", "checkpoint.every=20",
                                "run.resume_with=train.steps"});
  };
  const std::string before = folder_.path("before");
  const std::string parts = output() + "/checkpoints/step-00000010.parts/worker-";
  const auto of_root = [&](int ranks) {
    fs::remove_all(before);
    save_run(ranks, keys(10), before);
    return calls(ranks, keys(14), parts, before, OfRanks::root);
  };

  const Calls few = of_root(2);
  const Calls many = of_root(6);

  ASSERT_GT(few.at("open"), 0);
  EXPECT_EQ(few, many);
}

}  // namespace
}  // namespace flotilla::test
