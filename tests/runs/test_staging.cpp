// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/images/image_files.hpp"
#include "tests/runs/program.hpp"

// Data that are copied to the host's own disk first, and what a run says of where it is: as a user sees it.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

class Staging : public testing::Test {
 protected:
  Result train(int ranks, const std::string& deck, const std::string& output, const Texts& more = {}) const {
    Texts all = {
        "train",           deck, "run.output=" + folder_.path(output), "train.steps=6", "run.log_every=1",
        "device.threads=1"};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  std::string staged() const { return "data.stage_to=" + folder_.path("disk"); }
  std::string path(const std::string& name) const { return folder_.path(name); }

 private:
  TemporaryFolder folder_;
};

TEST_F(Staging, OfDigitsTrainsOnTheSameSamplesAndCopiesThemOnce) {
  const std::string deck = source_path("inputs/mnist_mlp.toml");
  const Result plain = train(2, deck, "plain");
  const Result first = train(2, deck, "first", {staged()});
  const Result second = train(2, deck, "second", {staged()});

  ASSERT_EQ(plain.exit_code + first.exit_code + second.exit_code, 0) << first.errors << second.errors;
  EXPECT_EQ(count(plain.output, "staged "), 0);
  EXPECT_EQ(count(first.output, "staged       4 files, "), 1) << first.output;
  EXPECT_EQ(count(first.output, ": copied in "), 1) << first.output;
  EXPECT_EQ(count(second.output, ", where all were"), 1) << second.output;
  EXPECT_EQ(losses(path("first")), losses(path("plain")));
  EXPECT_EQ(losses(path("second")), losses(path("plain")));
  EXPECT_EQ(read_file(path("first/deck.toml")).find(path("disk/flotilla-")), std::string::npos)
      << "a copy's path is nothing to go on with";
}

TEST_F(Staging, ARunGoesOnWithTheOriginals) {
  const std::string deck = source_path("inputs/mnist_mlp.toml");
  ASSERT_EQ(train(2, deck, "run", {staged(), "checkpoint.every=3", "train.steps=3"}).exit_code, 0);
  fs::remove_all(path("disk"));

  const Result resumed = train(2, deck, "run");

  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(count(resumed.output, "resuming after step 3 of 6"), 1) << resumed.output;
}

TEST_F(Staging, OfImagesTellsWhichOriginalIsBad) {
  std::string list;
  for (int i = 0; i < 8; ++i) {
    const Bytes image =
        jpeg(draw(20, 20, [&](int x, int y, int c) { return (x * 9 + y * 5 + c * 40 + i * 3) % 256; }));
    write_file(path("train-" + std::to_string(i) + ".jpg"), {image.begin(), image.end()});
    list += "train-" + std::to_string(i) + ".jpg " + std::to_string(i % 2) + "\n";
  }
  write_file(path("train.txt"), list);
  write_file(path("deck.toml"),
             "[model]\nwidths = [8]\nclasses = 2\n[data]\nkind = \"image-list\"\nimage_size = 16\n"
             "short_side = 18\ntrain.path = \"train.txt\"\n[train]\nbatch_size = 4\n"
             "[schedule]\nlearning_rate = 0.01\n");
  EXPECT_EQ(train(2, path("deck.toml"), "good", {staged()}).exit_code, 0);
  write_file(path("train-3.jpg"), "no image");

  const Result bad = train(2, path("deck.toml"), "bad", {staged()});

  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.errors.find(path("train-3.jpg") + ": "), std::string::npos) << bad.errors;
  EXPECT_NE(bad.errors.find(" (a copy made for data.stage_to: the original has the same path without " +
                            path("disk/flotilla-")),
            std::string::npos)
      << bad.errors;
}

TEST_F(Staging, OfClicksReadsPatternsOfCompressedFiles) {
  const Result made = run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "600", "--valid-rows", "200",
                           "--output", path("day_0.tsv")});
  ASSERT_EQ(made.exit_code, 0) << made.errors;
  fs::copy_file(path("day_0.tsv"), path("day_1.tsv"));
  ASSERT_EQ(run({"gzip", path("day_1.tsv")}).exit_code, 0);

  const Result result = train(2, source_path("inputs/ctr_dnn_criteo.toml"), "run",
                              {staged(), "data.train.path=" + path("day_[01].tsv*"),
                               "data.validation.path=" + path("day_0.valid.tsv"), "model.widths=[8]",
                               "train.batch_size=100", "data.hash_buckets=500"});

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.output, "staged       3 files, "), 1) << result.output;
  EXPECT_EQ(count(result.output, "training     1200 samples of 2 files, day_[01].tsv*"), 1) << result.output;
}

TEST_F(Staging, ADataKindWithoutFilesIsRefused) {
  const Result result = train(1, source_path("inputs/mlp_random.toml"), "run", {staged()});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.errors.find("data.stage_to"), std::string::npos) << result.errors;
}

TEST_F(Staging, TheStartSaysWhereTheRanksRunAndEachLogItsCores) {
  const Result result = train(2, source_path("inputs/mnist_mlp.toml"), "run");

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(count(result.output, "ranks        2 on "), 1) << result.output;
  EXPECT_EQ(count(result.output, "\nnetwork "), 0) << "there is one host";
  EXPECT_EQ(count(result.errors, "warning"), 0) << "a good launch: " << result.errors;
  EXPECT_EQ(count(read_file(path("run/log/rank-0001.log")), "rank 1 is number 1 on "), 1);
  const auto start = first_metrics(path("run"), "start");
  EXPECT_EQ(start.at("hosts"), 1);
  EXPECT_FALSE(start.contains("network_gb_s"));
}

}  // namespace
}  // namespace flotilla::test
