// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/dataset.hpp"
#include "src/data/staging/stage_files.hpp"
#include "src/data/staging/stage_plan.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;
using test::error_of;
using test::TemporaryFolder;

void write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

const auto no_beat = [] {};

class Stage : public testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_.path(name); }
  std::string disk() const { return folder_.path("disk"); }

  /// Two files of clicks among others.
  DataConfig clicks() {
    write(at("data/day_0"), "1 1:1 2:1\n0 3:1\n");
    write(at("data/day_1"), "0 2:1\n");
    write(at("data/_SUCCESS"), "");
    DataConfig data;
    data.kind = DataKind::libsvm;
    data.stage_to = disk();
    data.train.given = true;
    data.train.path = at("data");
    data.hash_buckets = 100;
    return data;
  }
  DataConfig images(const std::string& list) {
    DataConfig data;
    data.kind = DataKind::image_list;
    data.stage_to = disk();
    data.train.given = true;
    data.train.path = list;
    return data;
  }
  static Texts paths(const StagePlan& plan) {
    Texts paths;
    for (const StagedFile& file : plan.files) paths.push_back(file.path);
    return paths;
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Stage, CopiesWhatIsReadAndNothingElse) {
  const DataConfig data = clicks();
  const StagePlan plan = plan_staging(data, 2, no_beat);
  ASSERT_EQ(paths(plan), (Texts{at("data/day_0"), at("data/day_1")}));
  EXPECT_EQ(plan.bytes(), 22);

  const Staging done = stage_files(plan, disk());

  EXPECT_EQ(done.copied_files, 2);
  EXPECT_EQ(done.copied_bytes, 22);
  const std::string below = disk() + "/" + plan.name();
  EXPECT_EQ(read(below + at("data/day_0")), "1 1:1 2:1\n0 3:1\n");
  EXPECT_EQ(read(below + at("data/day_1")), "0 2:1\n");
  EXPECT_FALSE(fs::exists(below + at("data/_SUCCESS")));
  EXPECT_TRUE(fs::is_empty(below + "/.unfinished"));
  const DataConfig staged = staged_data(data, below);
  EXPECT_EQ(staged.train.path, below + at("data"));
  fs::remove_all(at("data"));
  EXPECT_EQ(open_dataset(staged, staged.train, 2, 1)->size(), 3) << "needs the originals";
}

TEST_F(Stage, CopiesNothingTwice) {
  const StagePlan plan = plan_staging(clicks(), 2, no_beat);
  const std::uint64_t first = stage_files(plan, disk()).checksum;

  const Staging again = stage_files(plan, disk());

  EXPECT_EQ(again.copied_files, 0);
  EXPECT_EQ(again.copied_bytes, 0);
  EXPECT_EQ(again.checksum, first);
}

TEST_F(Stage, GoesOnWhereAKilledJobStopped) {
  const StagePlan plan = plan_staging(clicks(), 2, no_beat);
  const std::uint64_t whole = stage_files(plan, disk()).checksum;
  const std::string below = disk() + "/" + plan.name();
  fs::remove(below + at("data/day_1"));
  fs::remove(below + "/.manifest");
  const std::string rest = below + "/.unfinished/17-1-0";
  write(rest, "half of");
  fs::last_write_time(rest, fs::file_time_type::clock::now() - std::chrono::hours(1));

  const Staging rests = stage_files(plan, disk());

  EXPECT_EQ(rests.copied_files, 1);
  EXPECT_EQ(rests.checksum, whole);
  EXPECT_FALSE(fs::exists(rest)) << "no process writes it";
}

/// Another user may have made the folder: its files would be read, and its links followed.
TEST_F(Stage, RefusesAFolderInWhichOthersMayWrite) {
  const StagePlan plan = plan_staging(clicks(), 2, no_beat);
  const std::string below = disk() + "/" + plan.name();
  write(at("elsewhere/.unfinished/old"), "precious");
  fs::last_write_time(at("elsewhere/.unfinished/old"),
                      fs::file_time_type::clock::now() - std::chrono::hours(1));
  fs::create_directory(disk());

  fs::create_directory_symlink(at("elsewhere"), below);
  const std::string link = error_of([&] { stage_files(plan, disk()); });
  fs::remove(below);
  fs::create_directory(below);
  fs::permissions(below, fs::perms::all);
  const std::string open_to_all = error_of([&] { stage_files(plan, disk()); });
  fs::remove(below);
  stage_files(plan, disk());

  for (const std::string& error : {link, open_to_all})
    EXPECT_EQ(error, below +
                         ": is a link, belongs to another user, or others may write in it: remove it, or set "
                         "data.stage_to to a folder of your own");
  EXPECT_TRUE(fs::exists(at("elsewhere/.unfinished/old")));
  EXPECT_EQ(fs::status(below).permissions(), fs::perms::owner_all);
}

TEST_F(Stage, MendsCopiesThatWereChanged) {
  const StagePlan plan = plan_staging(clicks(), 2, no_beat);
  stage_files(plan, disk());
  const std::string copy = disk() + "/" + plan.name() + at("data/day_1");
  write(copy, "1 2:1\n");  // of the same size

  EXPECT_EQ(stage_files(plan, disk()).copied_files, 1);

  EXPECT_EQ(read(copy), "0 2:1\n");
}

TEST_F(Stage, TakesAnotherFolderWhenTheOriginalsHaveChanged) {
  const DataConfig data = clicks();
  const StagePlan before = plan_staging(data, 2, no_beat);
  EXPECT_EQ(plan_staging(data, 2, no_beat).name(), before.name());
  fs::remove(at("data/day_1"));
  const StagePlan fewer = plan_staging(data, 2, no_beat);
  EXPECT_NE(fewer.name(), before.name());
  write(at("data/day_1"), "1 9:1\n");
  EXPECT_NE(plan_staging(data, 2, no_beat).name(), before.name()) << "of the same size, but later";
}

TEST_F(Stage, TellsAnOriginalThatChangesMeanwhile) {
  const StagePlan plan = plan_staging(clicks(), 2, no_beat);
  write(at("data/day_0"), "1 1:1\n");

  EXPECT_EQ(
      error_of([&] { stage_files(plan, disk()); }),
      at("data/day_0") + ": had 16 bytes when staging began, and has 6 now; start again when it is complete");
  EXPECT_FALSE(fs::exists(disk() + "/" + plan.name() + at("data/day_0")));
  EXPECT_TRUE(fs::is_empty(disk() + "/" + plan.name() + "/.unfinished"));
}

TEST_F(Stage, RefusesADiskWithoutRoomBeforeItCopies) {
  StagePlan plan = plan_staging(clicks(), 2, no_beat);
  plan.files[0].bytes = std::int64_t{1} << 60;

  const std::string error = error_of([&] { stage_files(plan, disk()); });

  EXPECT_EQ(error.find("data.stage_to = " + disk() + ": the copies need 1152921.5 TB more and the disk has "),
            0U)
      << error;
  EXPECT_FALSE(fs::exists(disk() + "/" + plan.name() + at("data")));
}

TEST_F(Stage, SeveralJobsMayStageAtOnce) {
  DataConfig data = clicks();
  for (int i = 2; i < 40; ++i)
    write(at("data/day_" + std::to_string(i)), std::string(std::size_t{50000}, 'x'));
  const StagePlan plan = plan_staging(data, 2, no_beat);
  std::vector<std::uint64_t> sums(3);
  std::vector<std::thread> jobs;

  for (std::uint64_t& sum : sums)
    jobs.emplace_back([&] { sum = stage_files(plan, disk(), {.threads = 2}).checksum; });
  for (std::thread& job : jobs) job.join();

  EXPECT_EQ(sums, std::vector<std::uint64_t>(3, sums[0]));
  EXPECT_EQ(stage_files(plan, disk()).copied_files, 0);
}

TEST_F(Stage, AnotherJobRemovesNoCopyOfAnOldFileThatIsAboutToGetItsName) {
  DataConfig data = clicks();
  for (int i = 0; i < 400; ++i) {
    write(at("data/day_" + std::to_string(i)), "1 1:1\n");
    fs::last_write_time(at("data/day_" + std::to_string(i)),
                        fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
  const StagePlan plan = plan_staging(data, 2, no_beat);
  std::atomic<bool> done = false;
  std::thread another_job([&] {
    while (!done) remove_stale_copies(disk() + "/" + plan.name() + "/.unfinished");
  });

  const std::string error = error_of([&] { stage_files(plan, disk()); });
  done = true;
  another_job.join();

  EXPECT_EQ(error, "");
}

TEST_F(Stage, KeepsPathsOfListsWhateverTheyAre) {
  write(at("lists/train.txt"), "a b.jpg 0\n../other/c.jpg 1\n" + at("far/d.jpg") + " 1\n");
  fs::create_directories(at("lists/train"));
  write(at("lists/train/a b.jpg"), "A");
  write(at("lists/other/c.jpg"), "C");
  write(at("far/d.jpg"), "D");
  const DataConfig data = images(at("lists/train.txt"));
  const StagePlan plan = plan_staging(data, 2, no_beat);
  EXPECT_EQ(paths(plan), (Texts{at("far/d.jpg"), at("lists/other/c.jpg"), at("lists/train.txt"),
                                at("lists/train/a b.jpg")}));
  stage_files(plan, disk());
  fs::remove_all(at("lists"));
  fs::remove_all(at("far"));

  const DataConfig staged = staged_data(data, disk() + "/" + plan.name());

  EXPECT_EQ(open_dataset(staged, staged.train, 2, 1)->size(), 3) << "looks all of them up";
}

TEST_F(Stage, SaysOfABadCopyWhereTheOriginalIs) {
  write(at("lists/train.txt"), "a.jpg 0\n");
  write(at("lists/a.jpg"), "no image");
  const DataConfig data = images(at("lists/train.txt"));
  const StagePlan plan = plan_staging(data, 2, no_beat);
  stage_files(plan, disk());
  const std::string below = disk() + "/" + plan.name();
  const DataConfig staged = staged_data(data, below);
  const auto dataset = open_dataset(staged, staged.train, 2, 1);
  std::vector<float> sample(static_cast<std::size_t>(dataset->sample_shape().size()));

  const std::string error = error_of([&] { dataset->read(0, 0, sample); });

  EXPECT_TRUE(test::mentions(
      error, {below + at("lists/a.jpg"),
              " (a copy made for data.stage_to: the original has the same path without " + below + ")"}));
}

TEST_F(Stage, KeepsClassesWithoutImages) {
  write(at("train/cat/a.jpg"), "A");
  write(at("train/dog/b.jpg"), "B");
  write(at("val/cat/c.jpg"), "C");
  fs::create_directories(at("val/dog"));
  DataConfig data = images(at("train"));
  data.kind = DataKind::image_folder;
  data.validation.given = true;
  data.validation.path = at("val");
  const StagePlan plan = plan_staging(data, 2, no_beat);
  stage_files(plan, disk());

  const DataConfig staged = staged_data(data, disk() + "/" + plan.name());

  EXPECT_EQ(open_dataset(staged, staged.train, 2, 1)->size(), 2);
  EXPECT_EQ(open_dataset(staged, staged.validation, 2, 1, {.training = false})->size(), 1);
}

TEST_F(Stage, LeavesOutImagesThatAreMissingWhereTheyMayBe) {
  write(at("train.txt"), "a.jpg 0\nb.jpg 1\n");
  write(at("a.jpg"), "A");
  DataConfig data = images(at("train.txt"));
  EXPECT_TRUE(test::mentions(error_of([&] { plan_staging(data, 2, no_beat); }), {"b.jpg is missing"}));

  data.on_bad_image = OnBadImage::replace;

  EXPECT_EQ(paths(plan_staging(data, 2, no_beat)), (Texts{at("a.jpg"), at("train.txt")}));
}

TEST(StagePlan, TravelsAsText) {
  const StagePlan plan{.files = {{"/a b\n1 2", 5, 17}, {"/c", 0, -1}}, .folders = {"/", "/x\ny"}};

  EXPECT_EQ(StagePlan::of_text(plan.text()), plan);
  EXPECT_EQ(StagePlan::of_text(StagePlan().text()), StagePlan());
}

}  // namespace
}  // namespace flotilla
