// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/shards/shard_files.hpp"
#include "src/data/shards/shard_images.hpp"
#include "src/data/shards/shard_index.hpp"
#include "src/data/shards/tar.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/shards/tar_bytes.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::gnu_size;
using test::mentions;
using test::tar_end;
using test::tar_member;

// Tar files as their bytes, written here by hand.

class Tar : public ::testing::Test {
 protected:
  File open(const std::string& bytes) const {
    test::save(path(), {bytes.begin(), bytes.end()});
    return File::open(path());
  }
  std::string path() const { return folder_.path("a.tar"); }
  /// "NAME BYTES CONTENTS" of each member.
  std::vector<std::string> members(const std::string& bytes) const {
    const File file = open(bytes);
    tar::Reader reader(file);
    std::vector<std::string> found;
    for (tar::Member member; reader.next(member);) {
      const auto contents = reader.contents(member);
      found.push_back(cat(member.name, " ", member.bytes, " ",
                          std::string(reinterpret_cast<const char*>(contents.data()), contents.size())));
    }
    return found;
  }
  std::string refused(const std::string& bytes) const {
    return test::error_of([&] { members(bytes); });
  }
  void expect_refused(const std::string& bytes, const std::string& text) const {
    EXPECT_EQ(refused(bytes).find(path() + ", byte "), 0U) << refused(bytes);
    EXPECT_TRUE(mentions(refused(bytes), {text}));
  }

 private:
  test::TemporaryFolder folder_;
};

using Texts = std::vector<std::string>;

TEST_F(Tar, HeadersReadBack) {
  const std::string block = tar::header("000000017.jpg", 123456789);
  const auto header = tar::parse_header(std::as_bytes(std::span(block)));

  ASSERT_EQ(block.size(), 512U);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->name, "000000017.jpg");
  EXPECT_EQ(header->bytes, 123456789);
  EXPECT_EQ(header->type, '0');
}

TEST_F(Tar, MembersOfAllFormatsAreListed) {
  const std::string long_name(150, 'l');
  EXPECT_EQ(members(tar_member("a.cls", "1") + tar_member("dir/", "", {.type = '5'}) +
                    tar_member("b.jpg", std::string(512, 'x')) + tar_end()),
            (Texts{"a.cls 1 1", "dir/ 0 ", "b.jpg 512 " + std::string(512, 'x')}));
  EXPECT_EQ(members(tar_member("a.cls", "1", {.prefix = "very/long"}) + tar_end()),
            (Texts{"very/long/a.cls 1 1"}));
  EXPECT_EQ(members(tar_member("a.cls", "1", {.prefix = "14500000000", .gnu = true}) + tar_end()),
            (Texts{"a.cls 1 1"}));
  EXPECT_EQ(members(test::gnu_long_name(long_name) + tar_member(long_name, "1", {.gnu = true}) +
                    tar_member("b.cls", "2", {.gnu = true}) + tar_end()),
            (Texts{long_name + " 1 1", "b.cls 1 2"}));
  EXPECT_EQ(members(test::pax_header("path", "ü/" + long_name) + tar_member("u", "1") +
                    tar_member("b.cls", "2") + tar_end()),
            (Texts{"ü/" + long_name + " 1 1", "b.cls 1 2"}));
  EXPECT_EQ(members(test::pax_header("size", "3") + tar_member("a", "123", {.size = "0"}) +
                    tar_member("b", "2") + tar_end()),
            (Texts{"a 3 123", "b 1 2"}));
  EXPECT_EQ(members(tar_member("a", "123", {.size = gnu_size(3)}) + tar_end()), (Texts{"a 3 123"}));
  EXPECT_EQ(members(tar_member("link", "", {.type = '2', .size = "00000001000"}) + tar_member("b", "2") +
                    tar_end()),
            (Texts{"link 0 ", "b 1 2"}));
  EXPECT_EQ(members(tar_end()), Texts{});
}

TEST_F(Tar, MembersBeyondTheReadersWindowAreFound) {
  std::string bytes;
  Texts names;
  for (int i = 0; i < 40; ++i) {
    const std::string contents(static_cast<std::size_t>(i * 977), 'z');
    bytes += tar_member("m" + std::to_string(i), contents);
    names.push_back(cat("m", i, " ", contents.size(), " ", contents));
  }
  EXPECT_EQ(members(bytes + tar_end()), names);
}

TEST_F(Tar, DamageIsToldWithItsPosition) {
  const std::string good = tar_member("a.cls", "1");
  expect_refused(good + tar_member("b.cls", "2", {.damaged = true}) + tar_end(),
                 "byte 1024: there is no header");
  expect_refused(good, "byte 1024: it ends without the blocks of zeros");
  EXPECT_TRUE(mentions(refused(""), {"is an empty file, not a tar file"}));
  expect_refused(good + tar_member("b.jpg", std::string(700, 'x')).substr(0, 900),
                 "byte 1924: it ends inside \"b.jpg\", whose 700 bytes begin at byte 1536: it was cut short");
  expect_refused(tar_member("b.jpg", "1", {.size = gnu_size(std::uint64_t{1} << 62)}) + tar_end(),
                 "it ends inside");
  expect_refused(tar_member("b.jpg", "1", {.size = gnu_size(std::uint64_t{1} << 63)}) + tar_end(),
                 "\"b.jpg\" has a size that is no number below 2^63");
  expect_refused(tar_member("b.jpg", "1", {.size = std::string(12, '\xFF')}) + tar_end(), "no number below");
  expect_refused(tar_member("b.jpg", "1", {.size = "12x"}) + tar_end(), "no number below");
  expect_refused(test::pax_header("size", "99999999999999999999") + good + tar_end(),
                 "pax header that cannot be read");
  expect_refused(tar_member("x", "99 path=a\n", {.type = 'x'}) + good + tar_end(),
                 "pax header that cannot be read");
  expect_refused(tar_member("x", std::string(1100000, 'n'), {.type = 'L'}) + good + tar_end(),
                 "a header of 1100000 bytes; 1048576 are the most");
  const test::Bytes zipped = test::gzip(test::Bytes(2000, 7));
  EXPECT_TRUE(mentions(refused(std::string(zipped.begin(), zipped.end()) + std::string(600, 'x')), {"gzip"}));
}

// Shards of other writers and of our own as sources of images, and what is wrong with them.

using Texts = std::vector<std::string>;

class Shards : public ::testing::Test {
 protected:
  std::string save(const std::string& name, const std::string& bytes) const {
    test::save(path(name), {bytes.begin(), bytes.end()});
    return path(name);
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  static std::unique_ptr<ImageSource> open(const Texts& shards, bool labelled = true) {
    return open_shards("the shards", shards, {.classes = 10, .labelled = labelled, .threads = 2});
  }
  /// "NAME LABEL CONTENTS" of each image.
  static Texts images(const ImageSource& source) {
    Texts texts;
    for (std::int64_t i = 0; i < source.size(); ++i) texts.push_back(image(source, i));
    return texts;
  }
  static std::string image(const ImageSource& source, std::int64_t i) {
    std::vector<std::byte> bytes;
    source.read(i, bytes);
    EXPECT_EQ(std::ssize(bytes), source.bytes(i));
    return cat(source.name(i), " ", source.label(i), " ",
               std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  static std::string refused(const Texts& shards, bool labelled = true) {
    return test::error_of([&] { open(shards, labelled); });
  }

 private:
  test::TemporaryFolder folder_;
};

TEST_F(Shards, OfOthersAreReadWhateverTheOrderOfASamplesFiles) {
  const std::string first =
      save("a.tar", tar_member("./", "", {.type = '5'}) + tar_member("./x/1.jpg", "one") +
                        tar_member("./x/1.cls", "3\n") + tar_member("./x/2.cls", " 4 ") +
                        tar_member("./x/2.json", "{}") + tar_member("./x/2.PNG", "two") +
                        tar_member("../../3.seg.png", "mask") + tar_member("../../3.jpeg", "three") +
                        tar_member("../../3.cls", "5") + tar_member("info.json", "{}") +
                        tar_member("README", "text") + tar_end());
  const std::string second =
      save("b.tar", test::gnu_long_name("./x/1.jpg") + tar_member("x", "four", {.gnu = true}) +
                        test::pax_header("path", "./x/1.cls") + tar_member("x", "0") + tar_end());

  const auto source = open({first, second});

  EXPECT_EQ(images(*source),
            (Texts{"./x/1.jpg 3 one", "./x/2.PNG 4 two", "../../3.jpeg 5 three", "./x/1.jpg 0 four"}));
  EXPECT_EQ(source->description(), "4 images in 2 shards: the shards");
  EXPECT_EQ(source->left_out(),
            "; left out: 2 .json files (\"./x/2.json\" …), 1 .seg.png file (\"../../3.seg.png\"), 1 file "
            "without a key (\"README\")");
  EXPECT_EQ(source->place(1).find(first + ", byte "), 0U) << source->place(1);
}

TEST_F(Shards, MistakesOfAllShardsAreToldTogether) {
  const std::string a =
      save("a.tar", tar_member("1.jpg", "x") + tar_member("2.jpg", "x") + tar_member("2.cls", "10") +
                        tar_member("3.webp", "x") + tar_member("3.cls", "1") + tar_end());
  const std::string b = save("b.tar", tar_member("4.jpg", "x") + tar_member("4.cls", "one") +
                                          tar_member("4.png", "x") + tar_member("5.jpg", "x") +
                                          tar_member("5.cls", "1") + tar_member("4.cls", "1") + tar_end());
  const std::string c = save("c.tar", tar_member("6.jpg", "x"));
  const std::string d = save("d.tar", tar_member("7.jpg", "", {.type = '1'}) + tar_end());

  const std::string text = refused({a, b, c, d, path("gone.tar")});

  EXPECT_EQ(text.find("the shards: 10 mistakes:\n  " + a + ", byte "), 0U) << text;
  for (const std::string& part :
       {a + ", byte 512: \"1.jpg\" has no label", std::string("label 10 of \"2.jpg\" is not in 0 … 9"),
        a + ", byte 3072: the sample \"3\" has no image (.jpg, .jpeg, .png), but .webp",
        std::string("\"4.cls\" must hold a label, a whole number from 0 on, got \"one\""),
        std::string("the sample \"4\" has two images"), b + ", byte 5120: the key \"4\" occurs again",
        c + ", byte 1024: it ends without", std::string("\"7.jpg\" is a link"),
        "cannot open '" + path("gone.tar") + "'"})
    EXPECT_TRUE(mentions(text, {part})) << part << "\n" << text;
}

TEST_F(Shards, ThatWereJoinedAreReadWhole) {
  const std::string part = tar_member("1.jpg", "x") + tar_member("1.cls", "1");
  const Texts whole = {"1.jpg 1 x", "1.jpg 1 x"};  // both parts have the key 1
  const auto read = [&](const std::string& bytes) { return open({save("a.tar", bytes)}); };

  EXPECT_EQ(images(*read(part + tar_end() + part + tar_end())), whole);
  EXPECT_EQ(images(*read(part + tar_end() + std::string(8192, '\0') + part + tar_end())), whole);
  EXPECT_EQ(images(*read(part + std::string(512, '\0') + part + tar_end())), whole);
  EXPECT_EQ(read(part + tar_end() + std::string(100, '\0'))->left_out(), "");
  EXPECT_EQ(read(part + tar_end() + std::string(1000, 'x'))->left_out(),
            "; left out: 1000 trailing bytes (\"" + path("a.tar") + "\" …)");
  EXPECT_TRUE(mentions(refused({save("a.tar", part + tar_end() + part)}), {"it was cut short"}));

  MistakeList mistakes;
  const ShardIndex index =
      scan_shard(File::open(save("a.tar", part + tar_member("2.json", "{}") + tar_end())), mistakes);
  EXPECT_EQ(ShardIndex::of_text(index.text(), "here").left_out.text(),
            "; left out: 1 .json file (\"2.json\")");
}

TEST_F(Shards, OtherKindsOfFilesAreNamed) {
  EXPECT_TRUE(mentions(refused({save("a.tar", "a/1.jpg 0\n")}),
                       {"is a list of images, not a tar file; data.kind = \"image-list\" reads it"}));
}

TEST_F(Shards, WithoutLabelsArePredictedWithout) {
  const std::string shard = save("a.tar", tar_member("1.jpg", "x") + tar_end());

  EXPECT_EQ(images(*open({shard}, false)), Texts{"1.jpg 0 x"});
  EXPECT_TRUE(mentions(refused({shard}), {"has no label"}));
  EXPECT_EQ(refused({save("b.tar", tar_end())}),
            "the shards: these shards hold no image (KEY.jpg, KEY.jpeg or KEY.png)");
}

TEST_F(Shards, ThatChangeAfterTheyWereOpenedAreNotRead) {
  const std::string bytes = tar_member("1.jpg", "x") + tar_member("1.cls", "1") + tar_end();
  const std::string shard = save("a.tar", bytes);
  const auto source = open({shard});
  EXPECT_EQ(image(*source, 0), "1.jpg 1 x");

  save("a.tar", bytes + tar_end());

  std::vector<std::byte> to;
  EXPECT_THROW(source->read(0, to), UserError);
  source->will_read(0, 1);  // a hint: reading reports what is wrong
}

TEST_F(Shards, OfWhichThereAreManyAreOpenedAsTheyAreNeeded) {
  Texts shards;
  for (int k = 0; k < 300; ++k)
    shards.push_back(save(std::to_string(k) + ".tar",
                          tar_member("1.jpg", std::to_string(k)) + tar_member("1.cls", "1") + tar_end()));
  const auto source = open(shards);

  for (int round = 0; round < 2; ++round)
    for (int k = 0; k < 300; k += 7) EXPECT_EQ(image(*source, k), cat("1.jpg 1 ", k));
  for (int k = 0; k < 300; ++k) image(*source, k);
  std::ptrdiff_t open_now = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    open_now += std::filesystem::read_symlink(file.path(), gone).string().ends_with(".tar") ? 1 : 0;
  }
  EXPECT_EQ(open_now, 256);
}

/// A shard of two images with an index next to it.
class IndexedShard : public Shards {
 protected:
  void SetUp() override {
    bytes = tar_member("0.cls", "1") + tar_member("0.jpg", "one") + tar_member("1.cls", "2") +
            tar_member("1.jpg", "two!") + tar_end();
    shard = save("a.tar", bytes);
    index = {.bytes = std::ssize(bytes),
             .checksum = 1,
             .sources = 2,
             .images = {{.begin = 1536, .bytes = 3, .label = 1, .name = "cat/a b.jpg"},
                        {.begin = 3584, .bytes = 4, .label = 2, .name = "dog.jpg"}}};
    write_index(index.text());
  }
  void write_index(const std::string& text) const { save("a.tar.index", text); }

  std::string bytes;
  std::string shard;
  ShardIndex index;
};

TEST_F(IndexedShard, IsReadByIt) {
  EXPECT_EQ(images(*open({shard})), (Texts{"cat/a b.jpg 1 one", "dog.jpg 2 two!"}));
  const ShardIndex again = ShardIndex::of_text(index.text(), "here");
  EXPECT_EQ(again.text(), index.text());
  EXPECT_EQ(again.checksum, 1U);
}

TEST_F(IndexedShard, WhoseIndexDoesNotFitIsRefused) {
  const auto expect_refused = [&](const std::string& text, const std::string& says) {
    write_index(text);
    EXPECT_TRUE(mentions(refused({shard}), {says}));
  };
  std::string text = index.text();
  text[text.find("cat")] = 'b';
  expect_refused(text, "a.tar.index: is damaged: its checksum does not fit");
  expect_refused("hello", "is not the index of a shard");
  expect_refused("", "is not the index of a shard");

  const auto expect_changed_refused = [&](const std::function<void(ShardIndex&)>& change,
                                          const std::string& says) {
    ShardIndex other = index;
    change(other);
    expect_refused(other.text(), says);
  };
  expect_changed_refused([](ShardIndex& other) { other.bytes += 512; }, "it was cut short or replaced");
  expect_changed_refused([](ShardIndex& other) { other.images[1].begin = 9000000; },
                         "has an image that no shard of its size holds");
  expect_changed_refused([](ShardIndex& other) { other.images[1].begin = 512; },
                         "a.tar, byte 512: its index ");
  expect_changed_refused([](ShardIndex& other) { other.images[1].bytes = 5; },
                         "says that \"dog.jpg\" of 5 bytes begins there, which it does not");
}

TEST_F(Shards, AreNamedByFoldersPatternsAndBraces) {
  for (const char* name : {"t-9.tar", "t-10.tar", "t-10.tar.index", "u-1.tar", "classes.txt"}) save(name, "");
  EXPECT_EQ(find_shards(path("")), (Texts{path("t-9.tar"), path("t-10.tar"), path("u-1.tar")}));
  EXPECT_EQ(find_shards(path("t-*")), (Texts{path("t-9.tar"), path("t-10.tar")}));
  EXPECT_EQ(find_shards(path("{t,u}-{1..2}.tar")),
            (Texts{path("t-1.tar"), path("t-2.tar"), path("u-1.tar"), path("u-2.tar")}));
  std::filesystem::create_directory(path("empty"));
  EXPECT_THROW(find_shards(path("empty")), UserError);
}

/// Bytes of a file that are in the system's memory.
std::int64_t resident_bytes(const File& file) {
  const auto bytes = static_cast<std::size_t>(file.size());
  void* const mapped = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  std::vector<unsigned char> pages(bytes / 4096);
  mincore(mapped, bytes, pages.data());
  munmap(mapped, bytes);
  return 4096 * std::ranges::count_if(pages, [](unsigned char page) { return (page & 1U) != 0; });
}

TEST_F(Shards, AreFetchedAheadNoFurtherThanABound) {
  constexpr std::int64_t mib = 1 << 20;
  File written = File::create(path("a.tar"));
  written.append(std::vector<std::byte>(8 * mib, std::byte{7}));
  written.sync();
  const File file = File::open(path("a.tar"));
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  if (resident_bytes(file) > 0) GTEST_SKIP() << "this file system keeps its files in memory";
  OpenFiles files(1);
  files.add(path("a.tar"), file.stamp());
  BackgroundReader reader(files, 2 * mib);
  const auto wait_for = [&](std::int64_t bytes) {
    while (resident_bytes(file) < bytes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };

  reader.fetch(0, 0, 8 * mib);
  wait_for(2 * mib);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(resident_bytes(file), 2 * mib);

  reader.has_read(2 * mib);
  wait_for(4 * mib);
  EXPECT_LT(resident_bytes(file), 8 * mib);
}

}  // namespace
}  // namespace flotilla
