// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/data/shards/tar_bytes.hpp"
#include "tests/runs/program.hpp"

// Every command works below a folder whose name means something to a shell, to decks, to patterns of files or
// to the formats that are written.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

/// Names of folders, one in the other.
const Texts names = {"cost_in_$usd", "a b",   "it's",   "\"q\"",   "~",       "~x",    "new\nline",
                     "back\\slash",  "100%s", "{a,b}",  "${HOME}", "*?[x]$$", "-dash", "=eq",
                     "#hash",        "a,b",   "[1,2]",  "é漢",     "tab\tx",  " lead", "trail ",
                     "a:b",          "$",     "{0..2}", "null"};

constexpr const char* deck_end =
    "[model]\nwidths = [4]\nclasses = 2\n[schedule]\nlearning_rate = 0.01\n[train]\nbatch_size = 4\nsteps = "
    "1\n"
    "[run]\noutput = \"run\"\n[device]\nthreads = 1\n";

class AwkwardNames : public testing::Test {
 protected:
  AwkwardNames() {
    for (const std::string& name : names) folder_ += "/" + name;
    fs::create_directories(folder_);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  /// Runs a command in the folder, as a user would.
  void expect_done(const Texts& arguments) const {
    Texts command = {"env", "-C", folder_};
    const Texts program = flotilla_command(1, arguments);
    command.insert(command.end(), program.begin(), program.end());
    const Result result = run(command);
    EXPECT_EQ(result.exit_code, 0) << arguments.at(0) << ": " << result.errors;
  }
  /// All commands that read the run or write next to it, given by relative and by absolute paths.
  void expect_all_commands_work(const std::string& data) const {
    expect_done({"train", "deck.toml"});
    expect_done({"train", path("deck.toml"), "train.steps=2"});
    expect_done({"train", "deck.toml", "train.steps=3", "data.stage_to=staged"});
    expect_done({"train", "deck.toml", "--check", "train.steps=4"});
    expect_done({"train", "deck.toml", "run.output=tuned", "model.initial_weights=run"});
    expect_done({"evaluate", "run"});
    expect_done({"evaluate", path("run")});
    expect_done({"predict", "run", data});
    expect_done({"predict", path("run"), path(data)});
    expect_done({"inspect", path("run")});
    expect_done({"report", "run"});
    expect_done({"export", path("run"), path("model.onnx")});
  }

 private:
  TemporaryFolder temporary_;
  std::string folder_ = temporary_.path("here");
};

TEST_F(AwkwardNames, OfFoldersOfArrays) {
  save(path("images"), images(12, 4, 4));
  save(path("labels"), labels(12, 2));
  write_file(path("deck.toml"), std::string("[data]\nkind = \"idx\"\n") +
                                    "train.images = \"images\"\ntrain.labels = \"labels\"\n"
                                    "validation.images = \"images\"\nvalidation.labels = \"labels\"\n" +
                                    deck_end);

  expect_all_commands_work("images");
}

TEST_F(AwkwardNames, OfFoldersOfShardsWithPatterns) {
  for (const int shard : {0, 1, 2}) {
    std::string members;
    for (int i = 0; i < 4; ++i) {
      const Bytes image = png(pattern(20 + i, 17));
      const std::string key = std::to_string(shard) + std::to_string(i);
      members += tar_member(key + ".png", {image.begin(), image.end()});
      members += tar_member(key + ".cls", std::to_string(i % 2));
    }
    write_file(path("s-" + std::to_string(shard) + ".tar"), members + tar_end());
  }
  write_file(path("deck.toml"),
             std::string("[data]\nkind = \"webdataset\"\nimage_size = 16\nshort_side = 18\n") +
                 "train.path = \"s-{0..2}.tar\"\nvalidation.path = \"s-[01].tar\"\n" + deck_end);

  expect_all_commands_work("s-0.tar");
}

}  // namespace
}  // namespace flotilla::test
