// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/error.hpp"
#include "tests/runs/program.hpp"

// Training on tables: what is found in the data is the same for any number of ranks, and goes with the model.

namespace flotilla {
namespace {

using test::Result;

class RunsOnTables : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string train = "id,x,city,kind\n";
    std::string held = "kind,x,city\n";
    for (int i = 0; i < 96; ++i) {
      const bool big = i % 3 == 0;
      const std::string row = cat(big ? 2000 + i : 1000 + i, ",", i % 2 == 0 ? "Bonn" : "Ulm");
      train += cat(i, ",", row, ",", big ? "big" : "small", "\n");
      held += cat(big ? "big" : "small", ",", row, "\n");
    }
    test::write_file(folder.path("train.csv"), train);
    test::write_file(folder.path("held.csv"), held);
    test::write_file(folder.path("deck.toml"),
                     "[data]\nkind = \"csv\"\ntarget_columns = [\"kind\"]\ncategories = [\"city\"]\n"
                     "ignored_columns = [\"id\"]\ninput_mean = \"auto\"\ninput_std = \"auto\"\n"
                     "train.path = \"train.csv\"\n[model]\nkind = \"mlp\"\nwidths = [8]\n"
                     "[train]\nglobal_batch_size = 12\nepochs = 4\n[optimizer]\nkind = \"adam\"\n"
                     "[schedule]\nlearning_rate = 0.05\n[device]\nthreads = 1\n");
  }

  Result train(int ranks, const std::string& run, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {"train", folder.path("deck.toml"), "run.output=" + folder.path(run)};
    command.insert(command.end(), more.begin(), more.end());
    return test::flotilla(ranks, command);
  }
  std::string found(const std::string& run) const {
    const Result shown = test::flotilla(1, {"inspect", "--json", folder.path(run)});
    EXPECT_EQ(shown.exit_code, 0) << shown.errors;
    return nlohmann::json::parse(shown.output).at("choices").at("data.found");
  }

  test::TemporaryFolder folder;
};

TEST_F(RunsOnTables, TakeWhatWasFoundAlongWithTheModel) {
  const Result alone = train(1, "one");
  ASSERT_EQ(alone.exit_code, 0) << alone.errors;
  EXPECT_NE(alone.output.find("from data    2 classes, 2 categories of 1 column"), std::string::npos)
      << alone.output;
  const Result three = train(3, "three");
  ASSERT_EQ(three.exit_code, 0) << three.errors;
  EXPECT_EQ(found("three"), found("one"));
  const auto json = nlohmann::json::parse(found("one"));
  EXPECT_EQ(json["classes"], (std::vector<std::string>{"big", "small"}));
  EXPECT_EQ(json["columns"], (std::vector<std::string>{"x", "city"}));
  EXPECT_EQ(json["input_mean"], (std::vector<double>{1380.83333, 0.5, 0.5}));

  const std::string held = folder.path("held.csv");
  const Result evaluated =
      test::flotilla(2, {"evaluate", folder.path("one"), "data.validation.path=" + held, "--json"});
  ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
  EXPECT_EQ(nlohmann::json::parse(evaluated.output)["accuracy_top1"], 1.0) << evaluated.output;
  const Result predicted = test::flotilla(1, {"predict", folder.path("one"), held, "--top", "1"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.errors;
  EXPECT_NE(predicted.output.find("\n0,big,"), std::string::npos) << predicted.output;
  EXPECT_NE(predicted.output.find("\n1,small,"), std::string::npos) << predicted.output;

  const Result resumed = train(2, "one", {"train.epochs=5"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
  EXPECT_EQ(found("one"), found("three"));
  const Result exported = test::flotilla(1, {"export", folder.path("one"), folder.path("model.h5")});
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  const Result again =
      test::flotilla(1, {"evaluate", folder.path("model.h5"), "data.validation.path=" + held});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
}

TEST_F(RunsOnTables, HoldBackTheSameSamplesForAnyNumberOfRanks) {
  const std::string share = "data.validation.share=0.25";
  for (const int ranks : {1, 2, 3}) {
    const std::string run = cat("share", ranks);
    const Result trained = train(ranks, run, {share, "checkpoint.best=loss"});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    EXPECT_NE(trained.output.find("training     72 of 96 samples"), std::string::npos) << trained.output;
    EXPECT_NE(trained.output.find("validation   24 of 96 samples"), std::string::npos) << trained.output;
    EXPECT_EQ(found(run), found("share1"));
    for (const char* data : {"train_data", "validation_data"})
      EXPECT_EQ(test::first_metrics(folder.path(run), "start").value(data, ""),
                test::first_metrics(folder.path("share1"), "start").value(data, "no such key"));
  }
  EXPECT_NE(found("share1"), "");
  const Result whole = train(1, "whole");
  ASSERT_EQ(whole.exit_code, 0) << whole.errors;
  EXPECT_NE(found("share1"), found("whole"));  // the scaling is that of the samples that are trained on

  const Result resumed = train(2, "share1", {share, "checkpoint.best=loss", "train.epochs=6"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
  test::expect_told(train(1, "share1", {"data.validation.share=0.5", "train.epochs=7"}),
                    "data.validation.share: 0.25 in the checkpoint, 0.5 now");
  test::expect_told(train(1, "share1", {"train.epochs=7"}),
                    "data.validation.share: 0.25 in the checkpoint, left out now");
}

TEST_F(RunsOnTables, AreEvaluatedOnWhatWasHeldBack) {
  const Result trained = train(2, "run", {"data.validation.share=0.25"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const nlohmann::json last = test::last_metrics(folder.path("run"), "validation");
  for (const int ranks : {1, 3}) {
    const Result evaluated = test::flotilla(ranks, {"evaluate", folder.path("run"), "--json"});
    ASSERT_EQ(evaluated.exit_code, 0) << evaluated.errors;
    const auto json = nlohmann::json::parse(evaluated.output);
    EXPECT_EQ(json["samples"], 24);
    EXPECT_EQ(json["accuracy_top1"], last["accuracy_top1"]);
  }
  const std::string held = "data.validation.path=" + folder.path("held.csv");
  const Result others = test::flotilla(1, {"evaluate", folder.path("run"), held, "--json"});
  ASSERT_EQ(others.exit_code, 0) << others.errors;
  EXPECT_EQ(nlohmann::json::parse(others.output)["samples"], 96);
  // Another share would evaluate on samples that were trained on.
  test::expect_told(test::flotilla(1, {"evaluate", folder.path("run"), "data.validation.share=0.5"}),
                    "data.validation.share is 0.5, and was 0.25 in the training");
  const Result predicted = test::flotilla(1, {"predict", folder.path("run"), folder.path("held.csv")});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.errors;
  EXPECT_EQ(test::count(predicted.output, "\n"), 97);
  const Result rate = test::flotilla(1, {"find-rate", folder.path("deck.toml"), "--steps", "10",
                                         "data.validation.share=0.25", "run.output=" + folder.path("rate")});
  EXPECT_EQ(rate.exit_code, 0) << rate.errors;
  const Result checked = train(2, "new", {"data.validation.share=0.25", "--check", "--data"});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
  for (const char* part : {"data.train: all 72 samples", "data.validation: all 24 samples"})
    EXPECT_NE(checked.output.find(part), std::string::npos) << checked.output;
}

TEST_F(RunsOnTables, HoldNothingBackBesideOtherValidationData) {
  const std::string deck = test::read_file(folder.path("deck.toml"));
  test::write_file(folder.path("deck.toml"), deck + "[data.validation]\nshare = 0.25\npath = \"held.csv\"\n");
  test::expect_told(train(1, "run"), "data.validation.share and data.validation.path exclude each other");
  test::write_file(folder.path("deck.toml"), deck + "[data.validation]\nshare = 1\n");
  test::expect_told(train(1, "run"), "data.validation.share must be");
  test::write_file(folder.path("deck.toml"), deck);
  test::expect_told(train(1, "run", {"data.kind=random", "data.validation.share=0.25"}),
                    "data.validation.share needs data.kind to be one of \"idx\"");
}

TEST_F(RunsOnTables, TellMistakesOnceForAllRanks) {
  test::write_file(folder.path("train.csv"), "id,x,city,kind\n0,1,Bonn,a\n1,,Ulm,b\n2,3,Ulm,b\n");
  const Result result = train(2, "run");
  EXPECT_EQ(result.exit_code, exit_user_error);
  EXPECT_NE(result.errors.find("train.csv:3: column 2 (\"x\") is missing"), std::string::npos)
      << result.errors;
}

TEST_F(RunsOnTables, BeginWithTheDeckOfInspect) {
  const Result deck = test::flotilla(1, {"inspect", "--deck", folder.path("train.csv")});
  ASSERT_EQ(deck.exit_code, 0) << deck.errors;
  test::write_file(folder.path("made.toml"), deck.output);
  const Result checked = test::flotilla(2, {"train", "--check", "--data", folder.path("made.toml")});
  EXPECT_EQ(checked.exit_code, 0) << checked.errors << deck.output;
  EXPECT_NE(checked.output.find("data.train: all 77 samples can be read"), std::string::npos)
      << checked.output;
}

class InspectedTables : public RunsOnTables {
 protected:
  Result inspect(const std::string& text, const std::vector<std::string>& more = {"--deck"}) const {
    test::write_file(folder.path("t.csv"), text);
    std::vector<std::string> command = {"inspect", folder.path("t.csv")};
    command.insert(command.end(), more.begin(), more.end());
    return test::flotilla(1, command);
  }
  /// The first line of the deck that holds the text.
  std::string line(const std::string& text, const std::string& part,
                   const std::vector<std::string>& more = {"--deck"}) const {
    const Result shown = inspect(text, more);
    EXPECT_EQ(shown.exit_code, 0) << shown.errors;
    const std::size_t at = shown.output.find(part);
    const std::size_t begin = shown.output.rfind('\n', at) + 1;
    return at == std::string::npos ? "" : shown.output.substr(begin, shown.output.find('\n', at) - begin);
  }
};

TEST_F(InspectedTables, SayWhichColumnsAreLeftOutAndWhatIsPredicted) {
  std::string text = "id,age,name,Survived,Fare\n";
  for (int i = 0; i < 200; ++i) text += cat(i, ",", i % 50, ".5,n", i, ",", i % 2, ",", i % 90, "\n");
  const std::string guess =
      "target_columns = [\"Survived\"]  # a guess by its name: --target COLUMN names another";
  EXPECT_EQ(line(text, "target_columns"), guess);
  EXPECT_EQ(line(text, "\"id\" is"), "# \"id\" is left out: it counts the lines");
  EXPECT_EQ(line(text, "\"name\" is"), "# \"name\" is left out: it has more than 100 different texts");
  EXPECT_EQ(line(text, "ignored"), "ignored_columns = [\"id\", \"name\"]");
  EXPECT_EQ(line(text, "target_columns", {"--deck", "--target", "Fare"}), "target_columns = [\"Fare\"]");
  EXPECT_EQ(line(text, "loss", {"--deck", "--target", "Fare"}), "loss = \"mse\"");
  EXPECT_EQ(line("x,y,rating\n1,2,5\n3,4,1\n", "target_columns"),
            "target_columns = [\"rating\"]  # a guess, the last one: --target COLUMN names another");
  EXPECT_NE(line("x,z,y\n1,2,5\n3,4,1\n", "target_columns").find("[\"y\"]"), std::string::npos);
  test::expect_told(inspect(text, {"--target", "fare"}), "has no column \"fare\" (--target)");
}

TEST_F(InspectedTables, KeepColumnsWithDecimalCommasAndWarn) {
  std::string text = "age;city;kind\n64,3;Ulm;a\n";
  for (int i = 0; i < 30; ++i) text += cat(i, ".5;Bonn;b\n");
  const Result shown = inspect(text);
  EXPECT_EQ(shown.exit_code, 0) << shown.errors;
  EXPECT_NE(shown.errors.find(
                "t.csv: the column \"age\" has 1 number with a decimal comma, which training refuses; "
                "line 2: write 64.3 for 64,3"),
            std::string::npos)
      << shown.errors;
  EXPECT_EQ(line(text, "\"age\""),
            "# \"age\" has decimal commas, which are refused (line 2: write 64.3 for 64,3)");
  EXPECT_EQ(line(text, "ignored"), "");
  test::write_file(folder.path("made.toml"), shown.output);
  test::expect_told(test::flotilla(1, {"train", folder.path("made.toml"), "--check"}),
                    "t.csv:2: column 1 (\"age\") is \"64,3\", with a decimal comma: write 64.3");
}

TEST_F(InspectedTables, WithoutSamplesGetNoDeck) {
  test::expect_told(inspect("", {}), "t.csv: is an empty CSV file: copy or download it again");
  test::expect_told(inspect("x,y\n"), "t.csv: holds no sample, only a header");
  EXPECT_EQ(inspect("x,y\n", {}).exit_code, 0);
  test::write_file(folder.path("a.svm"), "1 1:0.5 2:1\n-1 3:1\n");
  test::expect_told(test::flotilla(1, {"inspect", "--deck", folder.path("a.svm")}),
                    "decks are printed for CSV, HDF5 and .npz files, and this is a LIBSVM file: data.kind = "
                    "\"libsvm\" reads it; begin with");
}

TEST_F(RunsOnTables, TellTheirColumnsInOnnx) {
  const Result trained = train(1, "run", {"data.validation.share=0.25"});
  ASSERT_EQ(trained.exit_code, 0) << trained.errors;
  const Result evaluated = test::flotilla(1, {"evaluate", folder.path("run")});
  EXPECT_NE(evaluated.output.find("top-1"), std::string::npos) << evaluated.output;
  EXPECT_EQ(evaluated.output.find("top-5"), std::string::npos) << evaluated.output;  // of two classes
  const Result exported = test::flotilla(1, {"export", folder.path("run"), folder.path("model.onnx")});
  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  const std::string model = test::read_file(folder.path("model.onnx"));
  for (const char* part : {R"(["x","city"])", R"([[],["Bonn","Ulm"]])", "fills", R"(["big","small"])"})
    EXPECT_NE(model.find(part), std::string::npos) << part;
}

TEST_F(RunsOnTables, AreComparedAgainWhereMissingNumbersAreFilled) {
  test::write_file(folder.path("train.csv"), "x,city,kind\n1,Bonn,a\n,Ulm,b\n3,Bonn,a\n5,Ulm,b\n");
  test::write_file(folder.path("held.csv"), "x,city,kind\n,Bonn,a\n7,Ulm,b\n");
  test::write_file(folder.path("plan.toml"),
                   "deck = \"deck.toml\"\nseeds = 1\noutput = \"" + folder.path("plan") +
                       "\"\nset = [\"data.ignored_columns=[]\", \"data.fill_missing=mean\", "
                       "\"data.validation.path=" +
                       folder.path("held.csv") +
                       "\", \"train.global_batch_size=2\"]\n[[run]]\nname = \"a\"\n"
                       "[[run]]\nname = \"b\"\nset = [\"schedule.learning_rate=0.01\"]\n");
  for (int time = 0; time < 2; ++time) {
    const Result compared = test::flotilla(1, {"compare", folder.path("plan.toml"), "--quiet"});
    EXPECT_EQ(compared.exit_code, 0) << compared.errors;
  }
}

}  // namespace
}  // namespace flotilla
