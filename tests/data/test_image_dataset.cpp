// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "kernels/machine/available_memory.hpp"
#include "src/data/images/image_dataset.hpp"
#include "tests/data/idx_files.hpp"
#include "tests/data/read_samples.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/temporary_folder.hpp"

namespace flotilla {
namespace {

using test::sample_of;
using test::TemporaryFolder;
using test::values_of;

/// Takes a file's first byte as the value of all three colours.
class FirstByte final : public ImageTransform {
 public:
  Shape sample_shape() const override { return {3, 1, 1}; }
  void apply(std::span<const std::byte> file, std::uint64_t /*variation*/,
             std::span<float> to) const override {
    if (file.empty()) throw BadImage("is empty");
    std::ranges::fill(to, static_cast<float>(file[0]));
  }
};

/// `text` in train.txt, files "0" … in train/ that hold their number's byte.
class Images : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder.path("train"));
    for (int i = 0; i < 4; ++i) test::save(file(i), {static_cast<std::uint8_t>(i), 7, 7});
    const std::string text = "0 0\n1 1\n\n2 2\n3 0\n";
    test::save(folder.path("train.txt"), {text.begin(), text.end()});
  }
  std::string file(int i) const { return folder.path("train/" + std::to_string(i)); }
  std::unique_ptr<Dataset> open(std::int64_t ranks_cached) const {
    ImageList list =
        read_image_list(folder.path("train.txt"), {.root = "", .classes = 3, .root_key = "root"});
    return make_image_dataset(make_file_images(std::make_shared<const ImageList>(std::move(list))),
                              std::make_unique<FirstByte>(), ranks_cached, "repair it");
  }
  static std::string error_of(const Dataset& data, std::int64_t i) {
    return test::error_of<BadSample>([&] { sample_of(data, i); });
  }
  TemporaryFolder folder;
};

TEST_F(Images, AreReadWithTheirLabels) {
  for (const std::int64_t ranks_cached : {0, 1}) {
    const auto data = open(ranks_cached);
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int i = 0; i < 4; ++i) {
        EXPECT_EQ(sample_of(*data, i).label, i % 3);
        EXPECT_EQ(values_of(*data, i), std::vector<float>(3, static_cast<float>(i)));
      }
    }
  }
}

TEST_F(Images, ThatAreBadOrVanishDuringARunAreToldWithLineAndPath) {
  const auto data = open(0);
  test::save(file(1), {});
  std::filesystem::remove(file(2));
  std::filesystem::remove(file(3));
  std::filesystem::create_directory(file(3));

  EXPECT_EQ(error_of(*data, 0), "");
  EXPECT_EQ(error_of(*data, 1), folder.path("train.txt:2: ") + file(1) + ": is empty; repair it");
  EXPECT_EQ(error_of(*data, 2),
            folder.path("train.txt:4: ") + "cannot open '" + file(2) +
                "': No such file or directory; check the path (it begins at the folder of "
                "the deck, at the root of a list, and on the command line at the current "
                "folder); repair it");
  EXPECT_EQ(error_of(*data, 3), folder.path("train.txt:5: ") + "cannot open '" + file(3) +
                                    "': Is a directory; name a file in it; repair it");
}

TEST_F(Images, ThatAreCachedAreReadOnce) {
  const auto data = open(1);
  for (int i = 0; i < 4; ++i) sample_of(*data, i);
  std::filesystem::remove_all(folder.path("train"));

  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(sample_of(*data, i).label, i % 3);
    EXPECT_EQ(values_of(*data, i)[0], static_cast<float>(i));
  }
  EXPECT_TRUE(test::mentions(data->description(), {"12 B kept in memory"}));
}

TEST_F(Images, ThatChangeAfterTheStartAreNotCached) {
  const auto data = open(1);
  test::save(file(1), {9});
  EXPECT_EQ(values_of(*data, 1)[0], 9.0F);
  test::save(file(1), {8});

  EXPECT_EQ(values_of(*data, 1)[0], 8.0F);
}

TEST_F(Images, ThatDoNotFitIntoMemoryAreRefusedBeforehand) {
  std::filesystem::resize_file(file(2), static_cast<std::uintmax_t>(available_memory_bytes()) / 2);

  EXPECT_NO_THROW(open(0));
  EXPECT_NO_THROW(open(1));
  EXPECT_THROW(open(3), UserError);
}

TEST_F(Images, AreCachedByManyThreadsAtOnce) {
  const auto data = open(1);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      std::vector<float> sample(3);
      for (int n = 0; n < 2000; ++n) {
        const int i = n % 4;
        if (data->read(i, 0, sample) != i % 3 || sample[2] != static_cast<float>(i)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace flotilla
