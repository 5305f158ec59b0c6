// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/runs/program.hpp"

// A run goes on where its data lie elsewhere now, and does not go on with other data.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

constexpr const char* mlp = "[model]\nwidths = [8]\nclasses = 2\n[schedule]\nlearning_rate = 0.01\n";
constexpr const char* clicks =
    "[model]\nkind = \"ctr-dnn\"\nwidths = [8]\n[schedule]\nlearning_rate = 0.01\n[strategy]\n"
    "kind = \"parameter-server\"\n[server]\nmode = \"sync\"\n";

void write_images(const std::string& folder, const std::string& list) {
  std::string lines;
  for (int i = 0; i < 8; ++i) {
    const std::string name = "c" + std::to_string(i % 2) + "/" + std::to_string(i) + ".jpg";
    fs::create_directories(folder + "/c" + std::to_string(i % 2));
    const Bytes image = jpeg(draw(20, 20, [&](int x, int y, int c) { return x * 9 + y + c + i * 7; }));
    write_file(folder + "/" + name, {image.begin(), image.end()});
    lines += name + " " + std::to_string(i % 2) + "\n";
  }
  if (!list.empty()) write_file(list, lines);
}

std::string click_lines(const std::function<std::string(int)>& fields) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::to_string(i % 2) + fields(i) + "\n";
  return text;
}

/// One kind of data: how it is made in a folder next to its deck, and which file a changed sample is in.
struct Kind {
  std::string name;
  std::string data;  ///< The deck's data section
  std::function<void(const std::string& folder)> make;
  std::string changed_file;
  bool predicts_clicks = false;
};

std::ostream& operator<<(std::ostream& out, const Kind& kind) {
  return out << kind.name;
}

const std::vector<Kind> kinds = {
    {"idx", "kind = \"idx\"\ntrain.images = \"images\"\ntrain.labels = \"labels\"\n",
     [](const std::string& folder) {
       save(folder + "/images", images(40, 4, 4));
       save(folder + "/labels", labels(40, 2));
     },
     "images"},
    {"list",
     "kind = \"image-list\"\nimage_size = 16\nshort_side = 18\ntrain.path = \"list.txt\"\ntrain.root = "
     "\".\"\n",
     [](const std::string& folder) { write_images(folder, folder + "/list.txt"); }, "c0/0.jpg"},
    {"folder", "kind = \"image-folder\"\nimage_size = 16\nshort_side = 18\ntrain.path = \"images\"\n",
     [](const std::string& folder) { write_images(folder + "/images", ""); }, "images/c0/0.jpg"},
    {"libsvm", "kind = \"libsvm\"\nhash_buckets = 100\ntrain.path = \"lines\"\n",
     [](const std::string& folder) {
       write_file(folder + "/lines", click_lines([](int i) { return " " + std::to_string(i + 10) + ":1"; }));
     },
     "lines", true},
    {"criteo", "kind = \"criteo\"\nhash_buckets = 100\ntrain.path = \"lines\"\n",
     [](const std::string& folder) {
       write_file(folder + "/lines", click_lines([](int i) {
                    std::string fields;
                    for (int k = 0; k < 13; ++k) fields += "\t" + std::to_string(i + k);
                    for (int k = 0; k < 26; ++k) fields += "\tabcd" + std::to_string(1000 + i + k);
                    return fields;
                  }));
     },
     "lines", true},
};

/// The last byte but one, which belongs to a sample of each kind.
void change_a_sample(const std::string& file) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(-2, std::ios::end);
  const int before = bytes.peek();
  bytes.put(static_cast<char>(before == '1' ? '2' : '1'));
}

class MovedData : public testing::TestWithParam<Kind> {
 protected:
  MovedData() {
    fs::create_directory(path("here"));
    GetParam().make(path("here"));
    write_file(path("here/deck.toml"), (GetParam().predicts_clicks ? clicks : mlp) + std::string("[data]\n") +
                                           GetParam().data + "[train]\nbatch_size = 4\n");
  }
  std::string path(const std::string& name) const { return folder_.path(name); }
  Result train(const std::string& folder, int steps, const Texts& more = {}) const {
    Texts all = {"train", path(folder) + "/deck.toml", "run.output=" + path("run"),
                 "train.steps=" + std::to_string(steps), "device.threads=1"};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(2, all);
  }

 private:
  TemporaryFolder folder_;
};

TEST_P(MovedData, IsTheSameWhereverItLiesAndRefusedWhereItChanged) {
  const Result first = train("here", 2);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  fs::rename(path("here"), path("there"));

  const Result moved = train("there", 4);
  const Result staged = train("there", 6, {"data.stage_to=" + path("disk")});
  change_a_sample(path("there/" + GetParam().changed_file));
  const Result changed = train("there", 8);

  ASSERT_EQ(moved.exit_code, 0) << moved.errors;
  EXPECT_EQ(count(moved.output, "data.train lies elsewhere and holds the same samples ("), 1) << moved.output;
  ASSERT_EQ(staged.exit_code, 0) << staged.errors;
  EXPECT_EQ(count(staged.output, "lies elsewhere"), 0) << staged.output;
  EXPECT_EQ(last_metrics(path("run"), "step").at("step"), 6);
  EXPECT_EQ(changed.exit_code, 2);
  EXPECT_EQ(count(changed.errors, "flotilla: "), 1) << changed.errors;
  EXPECT_EQ(count(changed.errors, "data.train holds other samples than when it was saved ("), 1)
      << changed.errors;
}

INSTANTIATE_TEST_SUITE_P(Kinds, MovedData, testing::ValuesIn(kinds),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace flotilla::test
