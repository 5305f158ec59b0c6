// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
#include <thread>

#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Training and measuring on image files, and what happens to bad ones.

namespace flotilla::test {
namespace {

constexpr int images_per_class = 12;

/// JPEG images of two classes in train/ and val/, lists of them in the order of their paths, and a deck.
class ImageRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* part : {"train", "val"}) {
      std::string list;
      for (int label = 0; label < 2; ++label) {
        const std::string name = label == 0 ? "black cat" : "dog";
        std::filesystem::create_directories(path(std::string(part) + "/" + name));
        for (int i = 0; i < images_per_class; ++i) {
          const std::string file = name + "/" + std::to_string(10 + i) + ".jpg";
          save(path(std::string(part) + "/" + file),
               test::jpeg(test::draw(40 + i, 30, [&](int x, int y, int c) {
                 return (x * (label + 1) * 9 + y * 5 + c * 40 + i * 3) % 256;
               })));
          list += file + " " + std::to_string(label) + "\n";
        }
      }
      write_file(path(std::string(part) + ".txt"), list);
    }
    write_file(deck(),
               "[model]\nwidths = [8]\nclasses = 2\n[data]\nkind = \"image-list\"\nimage_size = 16\n"
               "short_side = 18\ntrain.path = \"train.txt\"\nvalidation.path = \"val.txt\"\n"
               "[train]\nepochs = 2\nglobal_batch_size = 8\nmixup = 0.2\n[schedule]\nlearning_rate = 0.01\n"
               "[run]\nlog_every = 1\n[device]\nthreads = 1\n");
  }
  static void save(const std::string& file, const test::Bytes& bytes) {
    write_file(file, {bytes.begin(), bytes.end()});
  }
  std::string path(const std::string& name) const { return folder.path(name); }
  std::string deck() const { return path("deck.toml"); }
  Result train(int ranks, const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> all = {"train", deck(), "run.output=" + path(run), "--verbose"};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  /// The lines of a run's warnings.
  static std::vector<std::string> warnings(const Result& result) {
    static const std::regex line("flotilla: warning: ([^\n]*)");
    std::vector<std::string> found;
    for (std::sregex_iterator at(result.errors.begin(), result.errors.end(), line), end; at != end; ++at)
      found.push_back((*at)[1]);
    return found;
  }
  TemporaryFolder folder;
};

TEST_F(ImageRuns, GiveTheSameBitsForListsAndFoldersAnyThreadsAndACache) {
  const Result list = train(2, "list");
  const Result classes = train(2, "classes",
                               {"data.kind=image-folder", "data.train.path=" + path("train"),
                                "data.validation.path=" + path("val"), "data.threads=2"});
  const Result cached = train(2, "cached", {"data.threads=4", "data.cache=files"});

  ASSERT_EQ(list.exit_code, 0) << list.errors;
  ASSERT_EQ(classes.exit_code, 0) << classes.errors;
  ASSERT_EQ(cached.exit_code, 0) << cached.errors;
  ASSERT_EQ(losses(path("list")).size(), 6U);
  EXPECT_EQ(losses(path("classes")), losses(path("list")));
  EXPECT_EQ(losses(path("cached")), losses(path("list")));
  EXPECT_EQ(last_metrics(path("list"), "validation").at("loss"),
            last_metrics(path("classes"), "validation").at("loss"));
  EXPECT_NE(list.output.find("24 images of " + path("train.txt") + ", paths from " + path("train") +
                             " (the folder named like the list)"),
            std::string::npos)
      << list.output;
  EXPECT_NE(classes.output.find("24 images of 2 classes in " + path("train")), std::string::npos)
      << classes.output;
}

TEST_F(ImageRuns, AugmentASampleAlikeOnAnyNumberOfRanksAndAfterAResume) {
  const std::vector<std::string> more = {"data.crop_padding=3", "data.rand_augment=2",
                                         "data.erase=0.5",      "data.color_jitter=0.1,0.1,0.1,0",
                                         "train.cutmix=1",      "run.reproducible=true",
                                         "run.virtual_shards=4"};
  const auto with = [&](const std::string& last) {
    std::vector<std::string> all = more;
    all.push_back(last);
    return all;
  };
  const Result one = train(1, "one", more);
  const Result two = train(2, "two", more);
  const Result four = train(4, "four", more);
  const Result begun = train(4, "resumed", with("train.steps=3"));
  const Result resumed = train(1, "resumed", more);
  const Result others = train(1, "others", with("data.erase=0"));
  const Result stronger = train(1, "stronger", with("data.rand_augment_magnitude=30"));

  ASSERT_EQ(one.exit_code, 0) << one.errors;
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  ASSERT_EQ(four.exit_code, 0) << four.errors;
  ASSERT_EQ(begun.exit_code, 0) << begun.errors;
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  ASSERT_EQ(losses(path("one")).size(), 6U);
  EXPECT_EQ(losses(path("two")), losses(path("one")));
  EXPECT_EQ(losses(path("four")), losses(path("one")));
  EXPECT_EQ(losses(path("resumed")), losses(path("one")));
  EXPECT_NE(losses(path("others")), losses(path("one")));
  ASSERT_EQ(stronger.exit_code, 0) << stronger.errors;
  EXPECT_NE(losses(path("stronger")), losses(path("one")));
  EXPECT_NE(one.output.find("moved by up to 3 pixels, RandAugment(2, 9), a part erased with probability 0.5"),
            std::string::npos)
      << one.output;
}

TEST(DigitRuns, AreAugmentedWhenAskedOnAnyNumberOfRanksAndInTrainingOnly) {
  const TemporaryFolder folder;
  save(folder.path("images"), images(48, 8, 7));
  save(folder.path("labels"), labels(48, 3));
  write_file(
      folder.path("deck.toml"),
      "[model]\nwidths = [8]\nclasses = 3\n[data]\ntrain.images = \"images\"\ntrain.labels = \"labels\"\n"
      "validation.images = \"images\"\nvalidation.labels = \"labels\"\n[train]\nepochs = 1\n"
      "global_batch_size = 8\n[schedule]\nlearning_rate = 0.05\n[device]\nthreads = 1\n[run]\n"
      "log_every = 1\nreproducible = true\nvirtual_shards = 4\n");
  const auto trained = [&](int ranks, const std::string& run, const std::vector<std::string>& more) {
    std::vector<std::string> all = {"train", folder.path("deck.toml"), "run.output=" + folder.path(run)};
    all.insert(all.end(), more.begin(), more.end());
    const Result result = flotilla(ranks, all);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return losses(folder.path(run));
  };
  const std::vector<std::string> changes = {"data.flip=0.5", "data.crop_padding=2", "data.rand_augment=2",
                                            "data.erase=0.5"};
  const auto plain = trained(1, "plain", {});
  const auto changed = trained(1, "changed", changes);

  EXPECT_EQ(trained(1, "not flipped", {"data.flip=0"}), plain);
  std::set<std::vector<double>> different = {plain, changed};
  for (const std::string& change : changes) different.insert(trained(1, change, {change}));
  EXPECT_EQ(different.size(), 2 + changes.size());
  EXPECT_EQ(trained(2, "two ranks", changes), changed);

  const auto evaluated = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"evaluate", folder.path("changed"), "--json"};
    all.insert(all.end(), more.begin(), more.end());
    return nlohmann::json::parse(flotilla(1, all).output).at("loss").get<double>();
  };
  EXPECT_EQ(evaluated({}),
            evaluated({"data.flip=0", "data.crop_padding=0", "data.rand_augment=0", "data.erase=0"}));
}

TEST_F(ImageRuns, MixNeedsAnEvenBatchOnEveryWorker) {
  const Result result = train(2, "run", {"train.global_batch_size=6"});

  expect_told(result,
              "train.mixup mixes pairs, but a worker's batch is 3; use train.global_batch_size = 4 or 8");
}

TEST_F(ImageRuns, TellTheMistakesOfAListOnce) {
  write_file(path("train.txt"), "dog/10.jpg 1\ndog/11.jpg\ndog/gone.jpg 1\ndog/12.jpg 2\n");

  const Result result = train(3, "run");

  expect_told(result, "train.txt: the list has 3 mistakes:");
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(ImageRuns, EndAtABadImageNamedWithItsLine) {
  save(path("train/dog/13.jpg"), test::bytes("<!DOCTYPE html><html></html>"));

  const Result result = train(2, "run");

  expect_told(result, path("train.txt") + ":16: " + path("train/dog/13.jpg") + ": ");
  EXPECT_NE(result.errors.find("data.on_bad_image"), std::string::npos) << result.errors;
}

TEST_F(ImageRuns, ReplaceBadImagesAndTellThemAfterEachEpochForAnyRankCount) {
  save(path("train/dog/13.jpg"), test::bytes("GIF89a"));
  save(path("train/dog/15.jpg"), {});
  std::filesystem::remove(path("train/black cat/17.jpg"));

  const Result one = train(1, "one", {"data.on_bad_image=replace", "data.threads=3"});
  const Result two = train(2, "two", {"data.on_bad_image=replace"});

  ASSERT_EQ(one.exit_code, 0) << one.errors;
  ASSERT_EQ(two.exit_code, 0) << two.errors;
  ASSERT_EQ(warnings(one).size(), 2U) << one.errors;
  EXPECT_EQ(warnings(one), warnings(two));
  EXPECT_EQ(warnings(one)[0].find("epoch 0: 3 images could not be read and others were taken instead; the "
                                  "first: " +
                                  path("train.txt") + ":8: cannot open '" + path("train/black cat/17.jpg")),
            0U)
      << one.errors;
  EXPECT_EQ(warnings(one)[1].find("epoch 1: 3 images "), 0U) << one.errors;
  EXPECT_EQ(one.errors.find("data.on_bad_image"), std::string::npos) << one.errors;
  ASSERT_EQ(losses(path("one")).size(), losses(path("two")).size());
  for (std::size_t i = 0; i < losses(path("one")).size(); ++i)
    EXPECT_TRUE(test::within(losses(path("one"))[i], losses(path("two"))[i], 1e-5)) << i;
}

TEST_F(ImageRuns, EndWhereMoreImagesAreBadThanTheDeckAllows) {
  for (const char* name : {"13", "14", "15"}) save(path(std::string("train/dog/") + name + ".jpg"), {});

  const Result result = train(2, "run", {"data.on_bad_image=replace", "data.max_bad_images=2"});

  expect_told(result, "of one epoch could not be read, more than data.max_bad_images = 2; the first: ");
}

TEST_F(ImageRuns, NeverReplaceAnImageOfTheValidation) {
  save(path("val/dog/13.jpg"), {});

  const Result result = train(2, "run", {"data.on_bad_image=replace"});

  expect_told(result, path("val.txt") + ":16: ");
}

TEST_F(ImageRuns, EndWhereTheFilesVanishMeanwhile) {
  Program program(flotilla_command(
      2, {"train", deck(), "run.output=" + path("run"), "train.epochs=100000", "data.threads=2"}));
  for (int i = 0; i < 3000 && metrics(path("run"), "step").empty(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));

  std::filesystem::rename(path("train"), path("elsewhere"));
  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("cannot open"), std::string::npos) << result.errors;
  EXPECT_NE(result.errors.find(path("train.txt") + ":"), std::string::npos) << result.errors;
}

TEST_F(ImageRuns, BenchInputEndsWithTheRate) {
  const Result list = flotilla(1, {"bench", "input", "--list", path("train.txt"), "--threads", "2", "--size",
                                   "24", "--images", "200", "--json", path("rate.json")});
  const Result of_deck = flotilla(2, {"bench", "input", deck(), "--seconds", "0.1", "data.threads=2"});
  const Result bytes = flotilla(1, {"bench", "input", "--list", path("train.txt"), "--size", "24", "--images",
                                    "100", "--filter", "antialias", "--device", "reference"});
  const Result neither = flotilla(1, {"bench", "input"});
  const Result missing = flotilla(2, {"bench", "input", "--list", path("gone.txt")});

  ASSERT_EQ(list.exit_code, 0) << list.errors;
  EXPECT_TRUE(std::regex_search(list.output, std::regex("\n[0-9.]+ images/s\n$"))) << list.output;
  EXPECT_NE(list.output.find("3x24x24"), std::string::npos) << list.output;
  EXPECT_GE(nlohmann::json::parse(read_file(path("rate.json"))).at("images"), 200);
  ASSERT_EQ(of_deck.exit_code, 0) << of_deck.errors;
  EXPECT_TRUE(std::regex_search(of_deck.output, std::regex("\n[0-9.]+ images/s\n$"))) << of_deck.output;
  EXPECT_EQ(count(of_deck.output, "images/s"), 1) << of_deck.output;
  EXPECT_NE(list.output.find(" images as floats, "), std::string::npos) << list.output;
  EXPECT_NE(bytes.output.find(" images as bytes, "), std::string::npos) << bytes.output << bytes.errors;
  expect_told(neither, "--list");
  expect_told(missing, "gone.txt");
}

TEST_F(ImageRuns, SayHowManyThreadsWouldKeepUpWhereReadingIsTheWholeWork) {
  save(path("train/large.jpg"), test::jpeg(test::busy(1000, 700)));
  std::string list;
  for (int i = 0; i < 24; ++i) list += "large.jpg " + std::to_string(i % 2) + "\n";
  write_file(path("large.txt"), list);

  const Result result = train(1, "large",
                              {"data.train.path=" + path("large.txt"), "data.train.root=" + path("train"),
                               "data.crop_area=[1.0, 1.0]", "data.threads=1", "train.epochs=8"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const std::regex told(
      "\ninput        (in the whole run )?took [0-9]+ % of the time: about [0-9]+ data.threads would "
      "keep up \\(1 now\\)");
  const auto times =
      std::distance(std::sregex_iterator(result.output.begin(), result.output.end(), told), {});
  EXPECT_EQ(times, 2) << result.output;  // at a report, and at the end
}

/// Returns once the watched file was opened, or `process` has ended.
void wait_until_opened(int watch, pid_t process) {
  pollfd opened{.fd = watch, .events = POLLIN, .revents = 0};
  while (poll(&opened, 1, 100) == 0 && runs(process)) {
  }
}

TEST_F(ImageRuns, EndAnEvaluationInWhichARankHangs) {
  ASSERT_EQ(train(2, "run", {"train.steps=1"}).exit_code, 0);
  save(path("val/large.jpg"),
       test::jpeg(test::draw(400, 300, [](int x, int y, int c) { return (x * y + c) % 256; })));
  std::string list;
  for (int i = 0; i < 4000; ++i) {  // seconds of work
    const std::string name = std::to_string(i) + ".jpg";
    std::filesystem::create_hard_link(path("val/large.jpg"), path("val/" + name));
    list += name + " 0\n";
  }
  write_file(path("val/large.txt"), list);
  const int watch = inotify_init1(IN_CLOEXEC);
  ASSERT_GE(inotify_add_watch(watch, path("val/large.jpg").c_str(), IN_OPEN), 0);
  Program program(flotilla_command(
      2, {"evaluate", path("run"), "data.validation.path=" + path("val/large.txt"), "run.watchdog_s=1"}));
  const std::vector<pid_t> ranks = rank_processes(program.pid(), 2);
  wait_until_opened(watch, program.pid());

  kill(ranks[1], SIGSTOP);
  const Result result = program.wait();

  EXPECT_EQ(result.exit_code, 3) << result.errors;
  for (const char* part : {"flotilla: rank 0 on ", "nothing has moved for 1 s (run.watchdog_s): evaluating",
                           "rank 1 on ", " does not answer"})
    EXPECT_NE(result.errors.find(part), std::string::npos) << part << "\n" << result.errors;
  close(watch);
}

}  // namespace
}  // namespace flotilla::test
