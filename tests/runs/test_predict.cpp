// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "tests/data/idx_files.hpp"
#include "tests/data/images/image_files.hpp"
#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// Predictions of unlabelled samples, and what evaluation says of classes.

namespace flotilla::test {
namespace {

namespace fs = std::filesystem;
using Texts = std::vector<std::string>;

constexpr int images_per_class = 9;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<nlohmann::json> objects_of(const std::string& text) {
  std::vector<nlohmann::json> objects;
  for (const std::string& line : lines_of(text)) objects.push_back(nlohmann::json::parse(line));
  return objects;
}

/// A network trained on dark and bright images in train/black cat and train/dog; the same kinds in new/.
class Predictions : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    for (const char* part : {"train", "new"})
      for (int i = 0; i < 2 * images_per_class; ++i) {
        const int label = i % 2;
        const std::string name = std::string(part) + "/" + (label == 0 ? "black cat" : "dog");
        fs::create_directories(path(name));
        save_image(name + "/" + std::to_string(10 + i) + ".jpg", label == 0 ? 40 : 200);
      }
    std::string list;
    for (int i = 0; i < 2 * images_per_class; ++i)
      list += std::string(i % 2 == 0 ? "black cat" : "dog") + "/" + std::to_string(10 + i) + ".jpg" +
              (i % 3 == 0 ? " 1" : "") + "\n";
    write_file(path("new.txt"), list);
    write_file(path("deck.toml"),
               "[model]\nwidths = [8]\nclasses = 2\n[data]\nkind = \"image-folder\"\nimage_size = 16\n"
               "short_side = 18\ntrain.path = \"train\"\n[train]\nepochs = 20\nglobal_batch_size = 6\n"
               "[schedule]\nlearning_rate = 0.05\n[device]\nthreads = 1\n");
    const Result result = flotilla(1, {"train", "--verbose", path("deck.toml"), "run.output=" + path("run")});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.output.find("classes      black cat … dog"), std::string::npos) << result.output;
    fs::rename(path("train"), path("gone"));  // a prediction needs no training data
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::string path(const std::string& name) { return folder_->path(name); }
  static void save_image(const std::string& name, int level) {
    const Bytes bytes =
        jpeg(draw(40, 30, [&](int x, int y, int c) { return level + (x * 3 + y * 5 + c * 7) % 30; }));
    write_file(path(name), {bytes.begin(), bytes.end()});
  }
  static Result predict(int ranks, const Texts& more) {
    Texts all = {"predict", path("run")};
    all.insert(all.end(), more.begin(), more.end());
    return flotilla(ranks, all);
  }
  static inline std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(Predictions, OfAFolderNameTheClassesWithoutTrainingDataAlikeOnAnyNumberOfRanks) {
  const Result one = predict(1, {path("new")});

  ASSERT_EQ(one.exit_code, 0) << one.errors;
  const Texts lines = lines_of(one.output);
  ASSERT_EQ(lines.size(), 1U + 2 * images_per_class) << one.output;
  EXPECT_EQ(lines[0], "sample,name,class_1,probability_1");
  EXPECT_EQ(lines[1].find("0," + path("new/black cat/10.jpg") + ",black cat,0."), 0U) << lines[1];
  EXPECT_EQ(lines.back().find("17," + path("new/dog/27.jpg") + ",dog,0."), 0U) << lines.back();
  EXPECT_EQ(one.errors.find("warning"), std::string::npos) << one.errors;
  for (const int ranks : {2, 4}) EXPECT_EQ(predict(ranks, {path("new")}).output, one.output);
}

TEST_F(Predictions, AreThoseThatAnEvaluationCounts) {
  const Result result = predict(1, {path("new"), "--format", "jsonl", "--top", "2"});
  const Result evaluation = flotilla(2, {"evaluate", path("run"), "data.validation.path=" + path("new"),
                                         "--json", "validation.batch_size=4"});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  ASSERT_EQ(evaluation.exit_code, 0) << evaluation.errors;
  const nlohmann::json told = nlohmann::json::parse(evaluation.output);
  std::vector<std::vector<int>> confusion(2, std::vector<int>(2));
  double loss = 0.0;
  for (const nlohmann::json& line : objects_of(result.output)) {
    const auto label = static_cast<std::size_t>(contains(line.at("name").get<std::string>(), "dog"));
    const std::string truth = label == 1 ? "dog" : "black cat";
    ++confusion[label][static_cast<std::size_t>(line.at("classes")[0] == "dog")];
    EXPECT_GE(line.at("probabilities")[0], line.at("probabilities")[1]);
    EXPECT_TRUE(test::within(
        line.at("probabilities")[0].get<double>() + line.at("probabilities")[1].get<double>(), 1.0, 2e-6));
    loss -= std::log(line.at("probabilities")[line.at("classes")[0] == truth ? 0 : 1].get<double>());
  }
  EXPECT_EQ(told.at("confusion"), nlohmann::json(confusion));
  EXPECT_TRUE(test::within(told.at("loss").get<double>(), loss / (2 * images_per_class), 1e-5));
  EXPECT_EQ(told.at("samples"), 2 * images_per_class);
  EXPECT_EQ(told.at("classes")[1].at("class"), "dog");
  EXPECT_EQ(told.at("classes")[1].at("recall").get<double>(), confusion[1][1] / double{images_per_class});
  EXPECT_EQ(told.at("classes")[1].at("precision").get<double>(),
            confusion[1][1] / double(confusion[0][1] + confusion[1][1]));
}

TEST_F(Predictions, OfAListKeepItsOrderAndItsNamesAndDoNotReadItsLabels) {
  const Result result = predict(2, {path("new.txt"), "--all", "--output", path("predictions.csv")});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_EQ(result.output, "");
  const Texts lines = lines_of(read_file(path("predictions.csv")));
  ASSERT_EQ(lines.size(), 1U + 2 * images_per_class);
  EXPECT_EQ(lines[0], "sample,name,black cat,dog");
  EXPECT_EQ(lines[1].find("0,black cat/10.jpg,0."), 0U) << lines[1];
  EXPECT_EQ(lines[4].find("3,dog/13.jpg,0."), 0U) << lines[4];
  EXPECT_NE(result.errors.find("predicted 18 of 18 samples"), std::string::npos) << result.errors;
}

TEST_F(Predictions, OfSingleFilesComeInTheirOrder) {
  const Result result =
      predict(2, {path("new/dog/11.jpg"), path("new/black cat/10.jpg"), path("new/dog/11.jpg")});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Texts lines = lines_of(result.output);
  ASSERT_EQ(lines.size(), 4U) << result.output;
  EXPECT_NE(lines[1].find("dog/11.jpg,dog,"), std::string::npos);
  EXPECT_NE(lines[2].find("black cat/10.jpg,black cat,"), std::string::npos);
  EXPECT_EQ(lines[1].substr(1), lines[3].substr(1));
}

TEST_F(Predictions, EndAtABadImageOrTellItByTheExitCode) {
  fs::create_directories(path("mixed"));
  save_image("mixed/a.jpg", 40);
  write_file(path("mixed/b.jpg"), "GIF89a");
  save_image("mixed/c.jpg", 200);

  const Result ended = predict(2, {path("mixed"), "--output", path("ended.csv")});
  const Result csv = predict(3, {path("mixed"), "data.on_bad_image=replace", "validation.batch_size=1"});
  const Result json = predict(1, {path("mixed"), "data.on_bad_image=replace", "--format", "jsonl"});
  const Result too_many = predict(1, {path("mixed"), "data.on_bad_image=replace", "data.max_bad_images=0",
                                      "--output", path("ended.csv")});

  EXPECT_EQ(ended.exit_code, 2) << ended.errors;
  EXPECT_NE(ended.errors.find(path("mixed/b.jpg") + ": is a GIF"), std::string::npos) << ended.errors;
  EXPECT_NE(ended.errors.find("add data.on_bad_image=replace"), std::string::npos) << ended.errors;
  EXPECT_EQ(csv.exit_code, 65) << csv.errors;
  EXPECT_EQ(count(csv.errors, "flotilla: warning: " + path("mixed/b.jpg") + ": "), 1) << csv.errors;
  ASSERT_EQ(lines_of(csv.output).size(), 4U) << csv.output;
  EXPECT_EQ(lines_of(csv.output)[2], "1," + path("mixed/b.jpg") + ",,");
  EXPECT_NE(lines_of(csv.output)[3].find("mixed/c.jpg,dog,"), std::string::npos);
  EXPECT_EQ(json.exit_code, 65) << json.errors;
  EXPECT_NE(objects_of(json.output)[1].at("error").get<std::string>().find("is a GIF"), std::string::npos);
  EXPECT_EQ(too_many.exit_code, 2) << too_many.errors;
  EXPECT_NE(too_many.errors.find("more than data.max_bad_images = 0; nothing was written"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path("ended.csv")));
}

TEST_F(Predictions, DoNotReplaceWhatIsPredicted) {
  save_image("only.jpg", 40);
  const std::string before = read_file(path("only.jpg"));

  const Result result = predict(2, {path("only.jpg"), "--output", path("only.jpg")});

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("cannot write '" + path("only.jpg") + "': it is the file that is being read"),
            std::string::npos)
      << result.errors;
  EXPECT_EQ(read_file(path("only.jpg")), before);
}

/// Files that the command line does not name: of a folder, of a list, and the deck; and one file for two
/// outputs.
TEST_F(Predictions, DoNotReplaceWhatTheyReadBesides) {
  const std::string image = path("new/dog/11.jpg");
  write_file(path("beside.txt"), "new/dog/11.jpg\n");
  for (const auto& [arguments, output] :
       {std::pair{Texts{"predict", path("run"), path("new"), "--output", image}, image},
        {{"predict", path("run"), path("beside.txt"), "--output", image}, image},
        {{"predict", path("run"), path("new"), "--deck", path("deck.toml"), "--output", path("deck.toml")},
         path("deck.toml")},
        {{"evaluate", path("run"), "data.validation.path=" + path("new"), "--vectors", image}, image}}) {
    const std::string before = read_file(output);

    const Result result = flotilla(1, arguments);

    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_NE(result.errors.find("cannot write '" + output + "': it is the file that is being read"),
              std::string::npos)
        << result.errors;
    EXPECT_EQ(read_file(output), before);
  }
  const Result twice = flotilla(1, {"evaluate", path("run"), "data.validation.path=" + path("new"), "--json",
                                    "--output", path("x.h5"), "--vectors", path("x.h5")});
  EXPECT_EQ(twice.exit_code, 2) << twice.errors;
  EXPECT_NE(twice.errors.find("x.h5' twice"), std::string::npos) << twice.errors;
}

TEST_F(Predictions, NeedNoDeckAfterAnExportAndSayWhatIsMissing) {
  ASSERT_EQ(run({FLOTILLA_EXECUTABLE, "export", path("run"), path("model.h5")}).exit_code, 0);

  const Result exported = flotilla(1, {"predict", path("model.h5"), path("new/dog")});
  const Result missing = predict(2, {path("new/dog/11.jpg"), path("nothing.jpg")});
  const Result empty = predict(1, {path("out-of-nothing")});
  fs::copy_file(path("new/dog/11.jpg"), path("no_ending"));
  const Result no_ending = predict(1, {path("no_ending")});
  const Result other_classes =
      flotilla(1, {"evaluate", path("run"), "data.validation.path=" + path("renamed")});

  EXPECT_EQ(exported.exit_code, 0) << exported.errors;
  EXPECT_NE(exported.output.find("dog/11.jpg,dog,"), std::string::npos) << exported.output;
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_NE(missing.errors.find("nothing.jpg: is missing; check the path"), std::string::npos)
      << missing.errors;
  EXPECT_EQ(empty.exit_code, 2) << empty.errors;
  EXPECT_EQ(no_ending.exit_code, 2);
  EXPECT_NE(no_ending.errors.find("or an image, whose name ends in .jpg, .jpeg or .png"), std::string::npos)
      << no_ending.errors;
}

TEST_F(Predictions, RefuseClassFoldersOfOtherNames) {
  fs::create_directories(path("renamed/cat"));
  fs::create_directories(path("renamed/dog"));
  save_image("renamed/cat/1.jpg", 40);

  const Result result = flotilla(2, {"evaluate", path("run"), "data.validation.path=" + path("renamed")});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(
      result.errors.find("its class folder \"cat\" stands where the checkpoint has the class \"black cat\""),
      std::string::npos)
      << result.errors;
}

TEST_F(Predictions, ShowAConfusionMatrixAndWriteJsonBesideTheReport) {
  const Result result =
      flotilla(2, {"evaluate", path("run"), "data.validation.path=" + path("new"), "--per-class",
                   "--confusion", "--json", "--output", path("report.json")});

  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("   class   samples     top-1  precision\n"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("confusion   rows: true classes, columns: predicted ones\n"),
            std::string::npos);
  EXPECT_NE(result.output.find("  black cat\n"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(read_file(path("report.json"))).at("classes").size(), 2U);

  fs::copy_file(path("report.json"), path("run/evaluation.json"));
  const Result page = run({FLOTILLA_EXECUTABLE, "report", path("run"), "--output", path("page.html")});
  EXPECT_EQ(page.errors, "");
  EXPECT_EQ(count(read_file(path("page.html")), R"("confusion":[[)"), 1);
  fs::remove(path("run/evaluation.json"));
}

TEST(PredictionsOfArrays, NeedNoLabelsAndNumberTheClassesUnlessAFileNamesThem) {
  const TemporaryFolder folder;
  save(folder.path("images"), images(40, 6, 5));
  save(folder.path("labels"), labels(40, 3));
  write_file(
      folder.path("deck.toml"),
      "[model]\nwidths = [8]\nclasses = 3\n[data]\ntrain.images = \"images\"\ntrain.labels = \"labels\"\n"
      "[train]\nepochs = 1\nglobal_batch_size = 8\n[schedule]\nlearning_rate = 0.05\n[device]\nthreads = "
      "1\n");
  ASSERT_EQ(flotilla(1, {"train", folder.path("deck.toml"), "run.output=" + folder.path("run")}).exit_code,
            0);
  write_file(folder.path("names.txt"), "0 boot\n1 bag, red\n2 shirt\n");

  const Result numbers = flotilla(2, {"predict", folder.path("run"), folder.path("images"), "--top", "3"});
  const Result names = flotilla(1, {"predict", folder.path("run"), folder.path("images"), "--all",
                                    "data.class_names=" + folder.path("names.txt")});
  write_file(folder.path("names.txt"), "boot\nbag\n");
  const Result too_few = flotilla(2, {"predict", folder.path("run"), folder.path("images"),
                                      "data.class_names=" + folder.path("names.txt")});

  ASSERT_EQ(numbers.exit_code, 0) << numbers.errors;
  const Texts lines = lines_of(numbers.output);
  ASSERT_EQ(lines.size(), 41U);
  EXPECT_EQ(lines[0], "sample,class_1,probability_1,class_2,probability_2,class_3,probability_3");
  EXPECT_EQ(lines[40].find("39,"), 0U);
  EXPECT_NE(numbers.errors.find("keeps no names of classes"), std::string::npos) << numbers.errors;
  EXPECT_EQ(lines_of(names.output)[0], "sample,boot,\"bag, red\",shirt");
  EXPECT_EQ(too_few.exit_code, 2);
  EXPECT_NE(too_few.errors.find("names.txt: names 2 classes, one a line, but model.classes = 3"),
            std::string::npos)
      << too_few.errors;
}

TEST(PredictionsOfClicks, TakeLinesWithAndWithoutLabels) {
  const TemporaryFolder folder;
  ASSERT_EQ(
      run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "600", "--output", folder.path("train.tsv")})
          .exit_code,
      0);
  const Result trained = flotilla(
      2, {"train", source_path("inputs/ctr_dnn_criteo.toml"), "run.output=" + folder.path("run"),
          "data.train.path=" + folder.path("train.tsv"), "data.validation.path=" + folder.path("train.tsv"),
          "device.threads=1", "model.widths=[8]", "train.batch_size=50", "data.hash_buckets=500"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  std::string unlabelled;
  for (const std::string& line : lines_of(read_file(folder.path("train.tsv"))))
    unlabelled += line.substr(2) + "\n";
  write_file(folder.path("new.tsv"), unlabelled);

  const Result labelled = flotilla(1, {"predict", folder.path("run"), folder.path("train.tsv")});
  const Result bare = flotilla(2, {"predict", folder.path("run"), folder.path("new.tsv")});

  ASSERT_EQ(labelled.exit_code, 0) << labelled.errors;
  ASSERT_EQ(bare.exit_code, 0) << bare.errors;
  EXPECT_EQ(lines_of(bare.output)[0], "sample,0,1");
  EXPECT_EQ(lines_of(bare.output).size(), 601U);
  EXPECT_EQ(bare.output, labelled.output);
}

}  // namespace
}  // namespace flotilla::test
