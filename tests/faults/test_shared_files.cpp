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
  /// The calls on paths that begin with `below`, in a job that trains with these keys.
  Calls calls(int ranks, const std::vector<std::string>& keys, const std::string& below) const {
    const std::string list = folder_.path("calls");
    fs::remove_all(list);
    fs::create_directory(list);
    fs::remove_all(output());
    const Result result =
        run(with_library(flotilla_command(ranks, keys), FAIL_AT_CALL, {"FLOTILLA_TEST_CALLS=" + list}));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    Calls found;
    for (int rank = 0; rank < ranks; ++rank) {
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

  TemporaryFolder folder_;
};

TEST_F(SharedFiles, EachRankOpensAFileOfSamplesOnceAndAsksForNothingElse) {
  const std::string data = fs::canonical(source_path("inputs/data/mnist"));
  const auto keys = small_run(output(), {"train.steps=4", "train.global_batch_size=48"});

  const Calls few = calls(2, keys, data);
  const Calls many = calls(6, keys, data);

  ASSERT_GT(few.at("open"), 0);
  EXPECT_LE(many.at("open") - few.at("open"), (6 - 2) * 4);  // images and labels, of training and validation
  EXPECT_EQ(few.contains("stat") ? few.at("stat") : 0, many.contains("stat") ? many.at("stat") : 0);
}

TEST_F(SharedFiles, ARunsFolderGetsALogOfEachRank) {
  const auto keys = small_run(output(), {"train.steps=4", "train.global_batch_size=48"});

  const Calls few = calls(2, keys, output());
  const Calls many = calls(6, keys, output());

  EXPECT_LE(many.at("open") - few.at("open"), (6 - 2) * 2);  // spdlog opens a new file twice
  EXPECT_LE(many.at("stat") - few.at("stat"), (6 - 2) * 4);
}

TEST_F(SharedFiles, OneRankListsImages) {
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
  write_file(folder_.path("deck.toml"),
             "[model]\nwidths = [8]\nclasses = 2\n[schedule]\nlearning_rate = 0.01\n"
             "[data]\nkind = \"image-folder\"\nimage_size = 16\nshort_side = 16\n"
             "[train]\nglobal_batch_size = 48\nepochs = 1\n");
  const std::vector<std::string> keys = {"train", folder_.path("deck.toml"),
                                         "data.train.path=" + images + "/train",
                                         "data.validation.path=" + images + "/val", "run.output=" + output()};

  const Calls few = calls(2, keys, images);
  const Calls many = calls(6, keys, images);

  EXPECT_EQ(few.contains("stat") ? few.at("stat") : 0, many.contains("stat") ? many.at("stat") : 0);
  EXPECT_EQ(few.at("open"), many.at("open"));
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
  EXPECT_EQ(few.contains("stat") ? few.at("stat") : 0, many.contains("stat") ? many.at("stat") : 0);
  EXPECT_GT(few.at("read"), 30);                             // 10 MB in reads of 256 KiB
  EXPECT_LE(many.at("read") - few.at("read"), (8 - 2) * 8);  // growing ones, at the beginning of each share
}

}  // namespace
}  // namespace flotilla::test
