// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "tests/data/images/image_files.hpp"
#include "tests/data/shards/tar_bytes.hpp"
#include "tests/runs/program.hpp"

// Images packed into shards, and training on them.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;

/// JPEG and PNG images of two classes in train/ and val/, lists of them, and a deck.
class Packing : public ::testing::Test {
 protected:
  static constexpr int per_class = 20;

  void SetUp() override {
    for (const char* part : {"train", "val"}) {
      std::string list;
      for (int i = 0; i < per_class; ++i) {
        for (int label = 0; label < 2; ++label) {
          const std::string name = label == 0 ? "black \"cat\"" : "dog";
          fs::create_directories(path(std::string(part) + "/" + name));
          const Picture picture = draw(50 + i, 40 + 2 * i, [&](int x, int y, int c) {
            return (x * (label + 1) * 9 + y * 5 + c * 40 + i * 3) % 256;
          });
          const bool is_png = i % 5 == 0;
          const std::string file = name + "/" + std::to_string(10 + i) + (is_png ? ".png" : ".jpg");
          const Bytes image = is_png ? png(picture) : jpeg(picture);
          write_file(path(std::string(part) + "/" + file), {image.begin(), image.end()});
          list += file + " " + std::to_string(label) + "\n";
        }
      }
      write_file(path(std::string(part) + ".txt"), list);
    }
    write_file(path("classes.txt"), "cat\ndog\n");
    write_file(path("deck.toml"),
               "[model]\nwidths = [8]\nclasses = 2\n[data]\nkind = \"image-list\"\nimage_size = 16\n"
               "short_side = 18\nrand_augment = 2\nexif_orientation = true\ntrain.path = \"train.txt\"\n"
               "validation.path = \"val.txt\"\n[train]\nepochs = 1\nglobal_batch_size = 8\n[schedule]\n"
               "learning_rate = 0.01\n[run]\nlog_every = 1\n[device]\nthreads = 1\n");
  }
  std::string path(const std::string& name) const { return folder.path(name); }
  Result pack(int ranks, const std::string& to, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"pack", path("train.txt"), "--output", path(to)});
    return flotilla(ranks, more);
  }
  Result train(int ranks, const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", path("deck.toml"), "run.output=" + path(run)};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  /// All files below a folder with their contents, by name.
  std::map<std::string, std::string> contents(const std::string& name) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(path(name)))
      if (!entry.path().filename().string().starts_with('.'))
        files[entry.path().filename().string()] = read_file(entry.path().string());
    return files;
  }
  TemporaryFolder folder;
};

/// What trains on the shards of `train` and `val`.
std::vector<std::string> on_shards(const std::string& train, const std::string& val) {
  return {"data.kind=webdataset", "data.train.path=" + train, "data.validation.path=" + val};
}

TEST_F(Packing, TrainsAsTheListDoesInAnyOrderOnAnyNumberOfRanks) {
  ASSERT_EQ(pack(2, "shards").exit_code, 0);
  // Run without mpirun, which takes seconds to end after a program fails.
  const Result val = run({FLOTILLA_EXECUTABLE, "pack", path("val"), "--output", path("shards")});
  ASSERT_EQ(val.exit_code, 2);  // its folders are other names than those of classes.txt
  EXPECT_NE(val.errors.find("names other classes than those of"), std::string::npos) << val.errors;
  ASSERT_EQ(flotilla(1, {"pack", path("val.txt"), "--output", path("shards")}).exit_code, 0);

  const std::map<std::string, std::vector<int>> ranks_of = {
      {"shuffled", {1}}, {"file", {1, 2}}, {"blocks", {1, 4}}};
  for (const auto& [order, all_ranks] : ranks_of) {
    for (const int ranks : all_ranks) {
      const std::string name = order + std::to_string(ranks);
      std::vector<std::string> more = {"data.order=" + order, "data.threads=2"};
      if (order == "blocks") more.insert(more.end(), {"data.shuffle_block=4", "data.shuffle_buffer=12"});
      const Result list = train(ranks, "list " + name, more);
      const auto shards = on_shards(path("shards/train-*.tar"), path("shards/val-{000000..000000}.tar"));
      more.insert(more.end(), shards.begin(), shards.end());
      const Result packed = train(ranks, "packed " + name, more);
      ASSERT_EQ(list.exit_code, 0) << list.errors;
      ASSERT_EQ(packed.exit_code, 0) << packed.errors;
      EXPECT_EQ(losses(path("list " + name)).size(), 5U);
      EXPECT_EQ(losses(path("list " + name)), losses(path("packed " + name))) << name;
      EXPECT_EQ(last_metrics(path("list " + name), "validation").at("loss"),
                last_metrics(path("packed " + name), "validation").at("loss"));
    }
  }
  EXPECT_NE(losses(path("list shuffled1")), losses(path("list file1")));
  EXPECT_NE(losses(path("list shuffled1")), losses(path("list blocks1")));
  EXPECT_NE(losses(path("list file1")), losses(path("list blocks1")));
}

TEST_F(Packing, WritesTheSameShardsOnAnyNumberOfRanks) {
  const Result one = pack(1, "one", {"--shard-mb", "1", "--name", "x"});
  ASSERT_EQ(one.exit_code, 0) << one.errors;
  ASSERT_EQ(pack(2, "two", {"--shard-mb", "1", "--name", "x"}).exit_code, 0);
  ASSERT_EQ(pack(3, "three", {"--shard-mb", "1", "--name", "x"}).exit_code, 0);

  const auto files = contents("one");
  EXPECT_EQ(files.at("classes.txt"), "cat\ndog\n");
  EXPECT_TRUE(files.contains("x-000000.tar"));
  EXPECT_TRUE(files.contains("x-000000.tar.index"));
  EXPECT_EQ(files, contents("two"));
  EXPECT_EQ(files, contents("three"));
  EXPECT_NE(one.output.find("packed 40 images, "), std::string::npos) << one.output;

  const Result tar = run({"tar", "-xOf", path("one/x-000000.tar"), "000000003.json", "000000000.json"});
  EXPECT_EQ(tar.output, "{\"path\":\"black \\\"cat\\\"/10.png\"}\n{\"path\":\"dog/11.jpg\"}\n") << tar.errors;
}

TEST_F(Packing, ReadsItsShardsWithoutTheIndexTo) {
  ASSERT_EQ(pack(1, "shards").exit_code, 0);
  ASSERT_EQ(train(2, "indexed", on_shards(path("shards"), "")).exit_code, 0);
  fs::remove(path("shards/train-000000.tar.index"));
  const Result scanned = train(2, "scanned", on_shards(path("shards"), ""));

  ASSERT_EQ(scanned.exit_code, 0) << scanned.errors;
  EXPECT_EQ(losses(path("indexed")), losses(path("scanned")));
  EXPECT_NE(scanned.output.find("40 images in 1 shard: " + path("shards")), std::string::npos)
      << scanned.output;

  const std::string shard = read_file(path("shards/train-000000.tar"));
  write_file(path("shards/train-000001.tar"), shard.substr(0, 5120));
  write_file(path("shards/train-000002.tar"), tar_member("7.cls", "1") + tar_end());
  const Result bad = train(2, "bad", on_shards(path("shards"), ""));
  expect_told(bad, path("shards") + ": 2 mistakes:\n");
  EXPECT_NE(bad.errors.find("train-000001.tar, byte 5120: it ends "), std::string::npos) << bad.errors;
  EXPECT_NE(bad.errors.find("train-000002.tar, byte 0: the sample \"7\" has no image"), std::string::npos)
      << bad.errors;
  EXPECT_FALSE(fs::exists(path("bad")));
}

TEST_F(Packing, PredictsWithTheNamesOfClassesAndOfTheImages) {
  ASSERT_EQ(pack(1, "shards").exit_code, 0);
  ASSERT_EQ(train(1, "run", on_shards(path("shards"), "")).exit_code, 0);

  const Result of_shards = flotilla(1, {"predict", path("run"), path("shards")});
  const Result of_files = flotilla(1, {"predict", path("run"), path("train.txt")});

  ASSERT_EQ(of_shards.exit_code, 0) << of_shards.errors;
  EXPECT_EQ(of_shards.output, of_files.output) << of_files.errors;
  EXPECT_NE(of_shards.output.find("\n3,dog/11.jpg,"), std::string::npos) << of_shards.output;
  fs::remove(path("shards/train-000000.tar.index"));
  const Result scanned = flotilla(2, {"predict", path("run"), path("shards/*.tar")});
  EXPECT_NE(scanned.output.find("\n3,000000003.jpg,"), std::string::npos) << scanned.output << scanned.errors;

  fs::copy_file(path("train/dog/11.jpg"), path("shards/11.jpg"));
  const Result mixed = flotilla(2, {"predict", path("run"), path("shards")});
  expect_told(mixed, "holds \"11.jpg\" beside the shard \"train-000000.tar\"");
  EXPECT_NE(mixed.errors.find("name \"" + path("shards/*.tar") + "\""), std::string::npos) << mixed.errors;
  EXPECT_EQ(flotilla(1, {"predict", path("run"), path("shards/*.tar")}).output, scanned.output);
}

/// Enough of large images for several shards of 1 MiB.
class LargePacking : public Packing {
 protected:
  static constexpr int images = 24;
  void SetUp() override {
    fs::create_directory(path("train"));
    std::string list;
    for (int i = 0; i < images; ++i) {
      const Bytes image = jpeg(busy(420 + 10 * i, 300), {.quality = 100});
      write_file(path("train/" + std::to_string(i) + ".jpg"), {image.begin(), image.end()});
      list += std::to_string(i) + ".jpg " + std::to_string(i % 3) + "\n";
    }
    write_file(path("train.txt"), list);
  }
  Result pack_small(int ranks, const std::string& to) const { return pack(ranks, to, {"--shard-mb", "1"}); }
};

TEST_F(LargePacking, DoesNotDependOnTheRanksAndWritesNoFinishedShardAgain) {
  ASSERT_EQ(pack_small(1, "one").exit_code, 0);
  const Result two = pack_small(2, "two");
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  const auto files = contents("one");
  ASSERT_GE(files.size(), 6U);
  EXPECT_EQ(files, contents("two"));

  // A finished shard keeps its inode; a damaged one and one whose image has changed do not.
  const auto inodes = [&] {
    std::vector<std::string> all;
    for (const auto& [name, text] : files)
      if (name.ends_with(".tar")) all.push_back(run({"stat", "-c", "%i %Y", path("two/" + name)}).output);
    return all;
  };
  const auto before = inodes();
  const Result again = pack_small(3, "two");
  EXPECT_NE(again.output.find(std::to_string(before.size()) + " shards were there already"),
            std::string::npos)
      << again.output;
  EXPECT_EQ(inodes(), before);

  std::string damaged = files.at("train-000001.tar");
  damaged[5000] = static_cast<char>(damaged[5000] ^ 1);
  write_file(path("two/train-000001.tar"), damaged);
  fs::remove(path("two/train-000002.tar.index"));
  ASSERT_EQ(pack_small(2, "two").exit_code, 0);
  EXPECT_EQ(contents("two"), files);
}

TEST_F(LargePacking, GoesOnWhereItWasKilled) {
  ASSERT_EQ(pack_small(1, "whole").exit_code, 0);
  const auto whole = contents("whole");
  std::string list;
  for (int copy = 0; copy < 15; ++copy) list += read_file(path("train.txt"));
  write_file(path("train.txt"), list);
  {
    Program program(
        flotilla_command(2, {"pack", path("train.txt"), "--output", path("shards"), "--shard-mb", "1"}));
    while (runs(program.pid()) && !fs::exists(path("shards/train-000003.tar.index")))
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (const pid_t rank : rank_processes(program.pid(), 2)) kill(rank, SIGKILL);
    EXPECT_NE(program.wait().exit_code, 0);
  }
  for (const auto& [name, text] : contents("shards"))
    EXPECT_TRUE(name.ends_with(".tar") || name.ends_with(".index") || name.ends_with(".partial")) << name;
  const Result resumed = pack_small(2, "shards");
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_NE(resumed.output.find(" there already"), std::string::npos) << resumed.output;
  ASSERT_EQ(pack_small(1, "straight").exit_code, 0);
  EXPECT_EQ(contents("shards"), contents("straight"));
}

TEST_F(LargePacking, TellsAllBadImagesAtOnceAndWritesTheirShardsNot) {
  write_file(path("train/3.jpg"), "<!DOCTYPE html><html></html>");
  write_file(path("train/20.jpg"), "GIF89a");
  const Result bad = pack_small(2, "shards");
  expect_told(bad, path("train.txt") + ": 2 mistakes:\n");
  EXPECT_NE(bad.errors.find(path("train.txt:4: ") + path("train/3.jpg") + ": is an HTML page"),
            std::string::npos)
      << bad.errors;
  EXPECT_NE(bad.errors.find(path("train.txt:21: ") + path("train/20.jpg") + ": is a GIF image"),
            std::string::npos)
      << bad.errors;
  EXPECT_FALSE(fs::exists(path("shards/train-000000.tar")));
  EXPECT_TRUE(fs::exists(path("shards/train-000001.tar")));

  write_file(path("train/3.jpg"), "");
  fs::remove(path("train/20.jpg"));
  const Result missing = pack_small(2, "others");
  expect_told(missing, path("train.txt") + ": 2 mistakes:\n");
  EXPECT_NE(missing.errors.find(path("train.txt:4: ") + path("train/3.jpg") + ": is empty"),
            std::string::npos)
      << missing.errors;
  EXPECT_NE(missing.errors.find(path("train.txt:21: ") + "cannot open '" + path("train/20.jpg")),
            std::string::npos)
      << missing.errors;
  EXPECT_FALSE(fs::exists(path("others")));
}

TEST_F(LargePacking, RefusesWhatWouldMixPackings) {
  ASSERT_EQ(pack_small(1, "shards").exit_code, 0);
  expect_told(run({FLOTILLA_EXECUTABLE, "pack", path("train.txt"), "--output", path("shards")}),
              "more of another packing, which would be read together with the 1 of this one");
  expect_told(run({FLOTILLA_EXECUTABLE, "pack", path("gone.txt"), "--output", path("shards")}), "gone.txt");
  expect_told(run({FLOTILLA_EXECUTABLE, "pack", path("train.txt"), "--output", path("train.txt")}),
              "train.txt");
}

TEST_F(LargePacking, EndsOnAllRanksWhereOneCannotWrite) {
  // A limit on the size of files acts like a full disk.
  const std::string limited =
      "if [ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ]; then ulimit -f 500; fi; "
      "export PMIX_MCA_gds=hash OMPI_MCA_btl=self,tcp UCX_TLS=self,tcp; exec \"$0\" \"$@\"";
  std::vector<std::string> command =
      flotilla_command(2, {"pack", path("train.txt"), "--output", path("shards"), "--shard-mb", "1"});
  const auto program = std::ranges::find(command, std::string(FLOTILLA_EXECUTABLE));
  command.insert(program, {"bash", "-c", limited});
  const Result full = run(command);

  EXPECT_EQ(full.exit_code, 2) << full.errors;
  EXPECT_NE(full.errors.find("rank 1 on "), std::string::npos) << full.errors;
  EXPECT_NE(full.errors.find("File too large; make room, or name another folder with --output"),
            std::string::npos)
      << full.errors;
  EXPECT_FALSE(fs::exists(path("shards/train-000001.tar")));
}

}  // namespace
}  // namespace flotilla::test
