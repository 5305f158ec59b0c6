// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "tests/config/deck_support.hpp"

namespace flotilla {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::good_deck;
using test::load;
using test::mistakes_of;

/// The mistakes in a valid deck to which one line is appended.
std::string with_line(const std::string& line) {
  return mistakes_of(good_deck + line + "\n");
}

void expect_in(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

TEST(AwkwardDeck, SyntaxErrorsHaveTheirPlace) {
  expect_in(mistakes_of("[train]\nepochs = = 3\n"), "the deck has 1 mistake:\n  bad.toml:2:10: ");
  expect_in(mistakes_of("[train\n"), "  bad.toml:1:");
  expect_in(mistakes_of("[train]\nepochs = 1\nepochs = 2\n"), "  bad.toml:3:");
  expect_in(mistakes_of("[train]\n[train]\n"), "  bad.toml:2:");
  expect_in(mistakes_of("[train]\nepochs = 9223372036854775808\n"), "  bad.toml:2:");
  expect_in(mistakes_of("run.output = \"unfinished"), "  bad.toml:1:");
}

TEST(AwkwardDeck, StringsWithoutQuotesAreCalledThat) {
  const auto told = [](const std::string& line) { return mistakes_of("[data]\n" + line + "\n"); };
  expect_in(told("kind = idx  # MNIST"), "bad.toml:2:8: strings need quotes: \"idx\" instead of idx");
  expect_in(told("train.path = /data/train"), "strings need quotes: \"/data/train\" instead of /data/train");
  expect_in(told("train.path = data/train.txt"), "strings need quotes: \"data/train.txt\"");
  expect_in(told("train.path=~/train.txt"), "strings need quotes: \"~/train.txt\"");
  expect_in(told("mean = [ zero, 1]"), "strings need quotes: \"zero\" instead of zero");
  expect_in(told("kind = all-reduce"), "strings need quotes: \"all-reduce\"");
  expect_in(told("flip = True"), "True is not a value: true and false are written in lower case");
  EXPECT_EQ(told("kind = \"idx").find("quotes:"), std::string::npos);
}

TEST(AwkwardDeck, WholePathsBelowATableAreCalledThat) {
  expect_in(mistakes_of(good_deck + "model.widths = [3]\n"),
            "model.widths below [schedule] means schedule.model.widths; write widths below [model]");
  expect_in(
      mistakes_of("model.widths = [3]\n" + good_deck),
      "a line such as model.widths = [64] makes the table [model] too; write its keys below one [model]");
}

TEST(AwkwardDeck, WrongQuotesAndEncodingsAreNamed) {
  const auto told = [](const std::string& line) { return mistakes_of("[model]\n" + line + "\n"); };

  expect_in(told("kind = “mlp”"), "bad.toml:2:8: strings need the quotes \" or ', not “");
  expect_in(told("kind = ‘mlp’"), "strings need the quotes \" or ', not ‘");
  expect_in(told("kind = 'mlp\""), "a string has no end in its line: close it");
  expect_in(told("kind = \"mlp"), "a string has no end in its line: close it");
  expect_in(told("kind = \"mlp'\r"), "a string has no end in its line: close it");
  expect_in(told("name = 'ü"), "a string has no end in its line: close it");
  expect_in(told("name = \"a\x01\""), "control characters");
  expect_in(told("# caf\xe9"), "save the deck as UTF-8");
  expect_in(mistakes_of("\xff\xfe[\0"s), "save the deck as UTF-8");
}

TEST(AwkwardDeck, ASyntaxErrorDoesNotHideMistakesOfOverrides) {
  const std::string mistakes = mistakes_of("[train", {"train.epochs=x", "nothing"});

  expect_in(mistakes, "the deck has 3 mistakes:");
  expect_in(mistakes, "command line: train.epochs=x: train.epochs must be an integer, got \"x\"");
  expect_in(mistakes, "command line: nothing: an override is written key.path=value");
}

TEST(AwkwardDeck, BytesThatAreNoTextAreRefused) {
  expect_in(mistakes_of("[train]\nepochs = 1\0"s), "  bad.toml:2:");
  expect_in(mistakes_of("\x7f"
                        "ELF\x02\x01\x01"s),
            "  bad.toml:1:1: ");
  expect_in(mistakes_of("# \xff\xfe broken"), "  bad.toml:1:");
  expect_in(mistakes_of("run.output = \"a\\u0000b\"\n" + good_deck),
            "run.output must not hold control characters");
}

TEST(AwkwardDeck, WindowsLineEndsAndAByteOrderMarkAreFine) {
  std::string text = "\xEF\xBB\xBF";
  for (const char letter : good_deck) text += letter == '\n' ? "\r\n"s : std::string(1, letter);

  EXPECT_EQ(load(text).config.resolved_text, load(good_deck).config.resolved_text);
}

TEST(AwkwardDeck, DeepNestingDoesNotOverflow) {
  std::string dotted = "a";
  for (int i = 0; i < 200000; ++i) dotted += ".a";
  const std::string brackets(100000, '[');
  std::string inline_tables = "a = ";
  for (int i = 0; i < 10000; ++i) inline_tables += "{a=";

  EXPECT_NE(mistakes_of(dotted + " = 1"), "");
  EXPECT_NE(mistakes_of("[" + dotted + "]"), "");
  EXPECT_NE(mistakes_of("a = " + brackets), "");
  EXPECT_NE(mistakes_of(inline_tables), "");
  EXPECT_NE(mistakes_of("model.widths = [[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]"), "");
}

TEST(AwkwardDeck, WrongTypesSayWhatIsExpectedAndWhatIsThere) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"train.epochs = \"3\"", "bad.toml:1:16: train.epochs must be an integer, got a string"},
      {"train.epochs = 3.0", "train.epochs must be an integer, got a number with a fraction"},
      {"train.epochs = true", "train.epochs must be an integer, got true or false"},
      {"train.epochs = [3]", "train.epochs must be an integer, got an array"},
      {"train.epochs = {a = 1}", "train.epochs must be an integer, got a table"},
      {"train.epochs = 2020-01-01", "train.epochs must be an integer, got a date or time"},
      {"run.trace = 1", "run.trace must be true or false, got an integer"},
      {"run.output = 1", "run.output must be a string, got an integer"},
      {"data.std = \"1\"", "data.std must be a number, got a string"},
      {"model.widths = 3", "model.widths must be an array of integers, got an integer"},
      {"model.widths = [3, \"a\"]",
       "bad.toml:1:20: model.widths must be an array of integers, got a string in it"},
      {"model.widths = [3, 1.5]", "got a number with a fraction in it"},
      {"optimizer.no_decay = [1]", "optimizer.no_decay must be an array of strings, got an integer in it"},
      {"train = 3", "bad.toml:1:9: train must be a table, got an integer"},
      {"[[train]]", "train must be a table, got an array"},
      {"data.train = \"here\"", "data.train must be a table, got a string"},
  };
  for (const auto& [text, mistake] : cases) expect_in(mistakes_of(text), mistake);
}

TEST(AwkwardDeck, AnIntegerWillDoForANumber) {
  EXPECT_EQ(load(good_deck + "warmup_epochs = 1\n").config.schedule.warmup_epochs, 1.0);
}

TEST(AwkwardDeck, ValuesOutOfRangeAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"warmup_epochs = nan", "schedule.warmup_epochs must be finite, got nan"},
      {"warmup_epochs = -inf", "schedule.warmup_epochs must be finite, got -inf"},
      {"warmup_epochs = -0.5", "bad.toml:13:17: schedule.warmup_epochs must be at least 0, got -0.5"},
      {"[run]\nseed = -1", "run.seed must be at least 0, got -1"},
      {"[run]\noutput = \"\"", "run.output must not be empty"},
      {"[run]\nresume = \"\"", "run.resume must not be empty"},
      {"[optimizer]\nkind = \"\"", "optimizer.kind must be one of \"sgd\", "},
      {"[optimizer]\nkind = \"adam\"\nbeta1 = 1", "optimizer.beta1 must be below 1, got 1.0"},
      {"[optimizer]\nno_decay = [\"biases\", \"bias\"]",
       "bad.toml:14:23: optimizer.no_decay[1] must be one of"},
      {"[checkpoint]\nkeep = 0", "checkpoint.keep must be at least 1, got 0"},
      {"[device]\nprecision = \"float16\"", "\"cpu\" computes in float32 and bfloat16"},
      {"[device]\nkind = \"reference\"\nprecision = \"bfloat16\"\n[device.loss_scale]\ninitial = 4",
       "device.loss_scale.initial needs device.precision to be \"float16\""},
      {"[device]\nkind = \"reference\"\nprecision = \"float16\"\n[device.loss_scale]\nvalue = 4",
       "device.loss_scale.value needs device.loss_scale.kind to be \"static\""},
      {"[device]\nkind = \"reference\"\nprecision = \"float16\"\n[device.loss_scale]\nbackoff = 1",
       "device.loss_scale.backoff must be below 1, got 1"},
      {"[model.x]\n[strategy]\nbucket_mb = 0", "strategy.bucket_mb must be positive, got 0.0"},
  };
  for (const auto& [line, mistake] : cases) expect_in(with_line(line), mistake);
  expect_in(mistakes_of("model.widths = [8, 0, -1]"),
            "bad.toml:1:20: model.widths[1] must be positive, got 0");
  expect_in(mistakes_of("data.kind = \"random\"\ndata.shape = []"),
            "data.shape must have at least 1 element");
  expect_in(mistakes_of("data.kind = \"random\"\ndata.shape = [1, 2, 3, 4]"), "at most 3 elements, got 4");
  expect_in(mistakes_of("data.std = 0"), "data.std must be positive, got 0");
  expect_in(mistakes_of("train.batch_size = 9223372036854775807"),
            "train.batch_size must be at most 2147483647");
  expect_in(mistakes_of("schedule.learning_rate = 1e-46"), "must be positive also as float32, got 1e-46");
  expect_in(mistakes_of("schedule.learning_rate = 1e39"), "must be finite also as float32, got 1e+39");
  expect_in(mistakes_of("train.label_smoothing = 0.9999999999"),
            "must be below 1 also as float32, got 0.999");
  // Nanoseconds are counted in 64 bits.
  for (const char* key : {"watchdog_s", "time_limit_s", "stop_margin_s"})
    expect_in(mistakes_of(cat("run.", key, " = 1e30")), cat("run.", key, " must be at most 1000000000"));
}

TEST(AwkwardDeck, UnknownNamesGetTheNearestKnownOne) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[optimzer]\nkind = \"adam\"\nbeta3 = 1",
       "bad.toml:13:2: [optimzer] is not a known table; did you mean \"optimizer\"?"},
      {"[run]\nouptut = \"x\"", "run.ouptut is not a known key; did you mean \"output\"?"},
      {"[optimizer]\nbatch_size = 3",
       "optimizer.batch_size is not a known key; did you mean train.batch_size?"},
      {"[optimizer]\nlearning_rate = 3",
       "optimizer.learning_rate is not a known key; did you mean schedule.learning_rate?"},
      {"[data.trian]\nimages = \"x\"", "[data.trian] is not a known table; did you mean \"train\"?"},
      {"[\"train.epochs\"]", "[train.epochs] is not a known table"},
      {"[checkpoint]\n\"a b\\u001b\" = 3", "checkpoint.a b\\u001B is not a known key"},
  };
  for (const auto& [line, mistake] : cases) {
    expect_in(with_line(line), mistake);
    expect_in(with_line(line), "the deck has 1 mistake:");
  }
  expect_in(mistakes_of("epochs = 3"), "bad.toml:1:1: epochs is not a known key; did you mean train.epochs?");
  expect_in(mistakes_of(good_deck, {"optimzer.kind=adam"}), "did you mean optimizer.kind?");
  expect_in(mistakes_of(good_deck, {"epochs=3"}), "did you mean train.epochs?");
  expect_in(mistakes_of(good_deck, {"train=3"}), "train is a table; give one of its keys");
  expect_in(mistakes_of(good_deck, {"=3"}), " is not a known key");
}

TEST(AwkwardDeck, AMisspeltKeyIsNotAlsoMissing) {
  const std::string text =
      "[model]\nwidth = [8]\nclass = 3\n[data]\nkind = \"random\"\nshape = [4]\ntrain.sample = 9\n"
      "[trian]\nepochs = 2\nbatch_size = 10\n[shedule]\nlearning_rate = 0.1\n";

  const std::string mistakes = mistakes_of(text);

  expect_in(mistakes, "the deck has 5 mistakes:");
}

TEST(AwkwardDeck, OverridesAreConvertedByTheKeysType) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"train.epochs=3.0", "train.epochs must be an integer, got \"3.0\""},
      {"train.epochs=99999999999999999999", "train.epochs must be an integer"},
      {"train.epochs=", "train.epochs must be an integer, got \"\""},
      {"run.trace=yes", "run.trace must be true or false, got \"yes\""},
      {"schedule.learning_rate=fast", "schedule.learning_rate must be a number"},
      {"schedule.learning_rate=1e999", "schedule.learning_rate must be a number"},
      {"schedule.learning_rate=nan", "schedule.learning_rate must be finite"},
      {"model.widths=",
       "model.widths must be an array of integers, got \"\" (an unset variable of the shell?)"},
      {"model.widths=[1,2", "model.widths must be an array of integers"},
      {"model.widths=1,,2", "model.widths must be an array of integers"},
      {"optimizer.kind=", "optimizer.kind must be one of"},
  };
  for (const auto& [text, mistake] : cases) {
    expect_in(mistakes_of(good_deck, {text}), "command line: " + text + ": " + mistake);
  }
  const Config config = load(good_deck, {"model.widths=1, 2,3", "optimizer.no_decay=biases,batch_norm",
                                         "model.activation=\"relu\"", "train.epochs= 7 ", "train.steps=+5"})
                            .config;
  EXPECT_EQ(config.model.widths, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(config.optimizer.no_decay, (std::vector{NoDecay::biases, NoDecay::batch_norm}));
  EXPECT_EQ(config.model.activation, Activation::relu);
  EXPECT_EQ(config.train.epochs, 7);
  EXPECT_EQ(config.train.steps, 5);
  EXPECT_TRUE(load(good_deck, {"model.widths=[]"}).config.model.widths.empty());
  EXPECT_EQ(load(good_deck, {"train.epochs=3", "train.epochs=4"}).config.train.epochs, 4);
}

TEST(AwkwardDeck, AnEmptyTextOnTheCommandLineIsSaid) {
  const std::vector<std::string> notes =
      load(good_deck, {"model.initial_weights=", "run.resume=never"}).notes;

  EXPECT_EQ(notes, std::vector<std::string>{"model.initial_weights is empty on the command line: none"});
}

TEST(AwkwardDeck, AFileThatCannotBeReadIsNamed) {
  const fs::path big = fs::path(testing::TempDir()) / "big.toml";
  std::ofstream(big) << std::string(1048577, '#');

  for (const std::string& path : {"no/such/deck.toml"s, testing::TempDir(), big.string()}) {
    try {
      read_deck_file(path);
      ADD_FAILURE() << path << " was read";
    } catch (const UserError& error) {
      expect_in(error.what(), path);
    }
  }
  fs::remove(big);
}

/// model.initial_weights as it is used where the command line gives this.
std::string weights_at(const std::string& path) {
  return load(good_deck, {"model.initial_weights='" + path + "'"}).config.model.initial_weights;
}

TEST(AwkwardDeck, PathsNameTheHomeFolderAndVariablesOfTheEnvironment) {
  setenv("HOME", "/home/user", 1);
  setenv("FLOTILLA_TEST_1", "/scratch/job 7", 1);

  EXPECT_EQ(weights_at("~/images"), "/home/user/images");
  EXPECT_EQ(weights_at("$FLOTILLA_TEST_1/images"), "/scratch/job 7/images");
  EXPECT_EQ(weights_at("/data/a${FLOTILLA_TEST_1}b/$HOME"), "/data/a/scratch/job 7b/home/user");
  EXPECT_EQ(weights_at("/cost$/5$/~/$7"), "/cost$/5$/~/$7");
  EXPECT_EQ(load(good_deck, {"run.output=~"}).config.run.output, "/home/user");
}

TEST(AwkwardDeck, PathsWithUnknownVariablesAreRefused) {
  setenv("FLOTILLA_TEST_EMPTY", "", 1);
  const auto refusal = [](const std::string& path) {
    return mistakes_of(good_deck, {"model.initial_weights='" + path + "'"});
  };

  expect_in(refusal("/a/$FLOTILLA_TEST_NONE/b"),
            "model.initial_weights: \"$FLOTILLA_TEST_NONE\" in a path needs the environment variable "
            "FLOTILLA_TEST_NONE, which is not set: set it, or write the folder out");
  expect_in(refusal("${FLOTILLA_TEST_EMPTY}/b"), "FLOTILLA_TEST_EMPTY, which is empty");
  expect_in(refusal("/a/${FLOTILLA_TEST"), "after ${ a name and } are expected");
  expect_in(refusal("~user/b"), "only ~ itself stands for a folder");
}

}  // namespace
}  // namespace flotilla
