// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/runs/program.hpp"

// The user's mistakes: one clear message, whatever the rank count, exit code 2, nothing written. What each
// message says is tested where it is made (tests/config, tests/data, tests/checkpoint); here is the way from
// there to the terminal.

namespace flotilla::test {
namespace {

using Arguments = std::vector<std::string>;

const std::string deck = source_path("inputs/mnist_mlp.toml");

/// Runs with a mistake and checks how it is reported.
std::string errors_of(const std::vector<std::string>& arguments, const TemporaryFolder& folder,
                      int ranks = 2) {
  std::vector<std::string> all = {"train", deck, "run.output=" + folder.path("run")};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Result result = flotilla(ranks, all);
  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_EQ(count(result.errors, "flotilla: ") - count(result.errors, "flotilla:   "), 1) << result.errors;
  EXPECT_FALSE(std::filesystem::exists(folder.path("run"))) << "something was written";
  return result.errors;
}

TEST(BadInput, AllMistakesOfADeckAreToldAtOnceAndOnce) {
  TemporaryFolder folder;
  const std::string bad = folder.path("bad.toml");
  write_file(
      bad,
      "[train]\nbatch_size = -4\nsteps = 10\n[optimizer]\nmomentun = 0.9\n[strategy]\nkind = \"localsgd\"\n");

  const Result result = flotilla(4, {"train", bad, "run.output=" + folder.path("run")});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: the deck has "), 1) << result.errors;
  EXPECT_NE(result.errors.find("bad.toml:2:14: train.batch_size must be positive, got -4"), std::string::npos)
      << result.errors;
  EXPECT_NE(result.errors.find("bad.toml:5:1: optimizer.momentun is not a known key"), std::string::npos)
      << result.errors;
  EXPECT_NE(result.errors.find("bad.toml:7:8: strategy.kind must be "), std::string::npos) << result.errors;
}

TEST(BadInput, EachLineOfAMistakeBeginsAlike) {
  const TemporaryFolder folder;
  write_file(folder.path("bad.toml"), "[train]\nbatch_size = -4\nsteps = 10\n[model]\nkind = mlp\n");

  const Result result = run({FLOTILLA_EXECUTABLE, "train", folder.path("bad.toml")});

  EXPECT_EQ(result.errors, "flotilla: the deck has 1 mistake:\nflotilla:   " + folder.path("bad.toml") +
                               ":5:8: strings need quotes: \"mlp\" instead of mlp\n");
}

TEST(BadInput, AnUnknownKeyOnTheCommandLineIsTold) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"train.batchsize=3"}, folder);

  EXPECT_NE(errors.find("command line: train.batchsize"), std::string::npos) << errors;
  EXPECT_NE(errors.find("did you mean \"batch_size\""), std::string::npos) << errors;
}

TEST(BadInput, PathsThatNoCheckpointCouldNameAreRefused) {
  const TemporaryFolder folder;
  for (const std::string key : {"run.output", "data.train.images", "model.initial_weights"}) {
    const std::string errors = errors_of({key + "=" +
                                          folder.path("a\xFF"
                                                      "b")},
                                         folder, 1);

    EXPECT_NE(errors.find(key + " must be UTF-8"), std::string::npos) << errors;
    EXPECT_NE(errors.find("a\\xFFb\""), std::string::npos) << errors;
    EXPECT_FALSE(
        std::filesystem::exists(folder.path("a\xFF"
                                            "b")));
  }
}

TEST(BadInput, ArgumentsThatAreNotTextAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.path(
      "a\xFF"
      "b.h5");
  write_file(path, "");
  for (const Arguments& arguments :
       {Arguments{"evaluate", path}, Arguments{"inspect", path}, Arguments{"inspect", "--json", path},
        Arguments{"export", path, folder.path("out.h5")}, Arguments{"export", deck, path},
        Arguments{"evaluate", deck, "--vectors=" + path}, Arguments{"train", path},
        Arguments{"bench", "input", "--list", path}}) {
    const Result result = flotilla(1, arguments);

    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
    EXPECT_NE(result.errors.find("a\\xFFb.h5\" is not UTF-8"), std::string::npos) << result.errors;
    EXPECT_FALSE(std::filesystem::exists(folder.path("out.h5")));
  }
}

TEST(BadInput, FoldersThatNoCheckpointCouldNameAreRefused) {
  const TemporaryFolder folder;
  const std::string here = folder.path(
      "a\xFF"
      "b");
  std::filesystem::create_directory(here);

  const Result result = run({"env", "--chdir=" + here, FLOTILLA_EXECUTABLE, "train", deck, "train.steps=3"});

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("run.output is in \""), std::string::npos) << result.errors;
  EXPECT_TRUE(std::filesystem::is_empty(here));
}

TEST(BadInput, CheckpointsInFoldersThatAreNotTextAreRefused) {
  const TemporaryFolder folder;
  const std::string here = folder.path(
      "a\xFF"
      "b");
  std::filesystem::create_directory(here);
  ASSERT_EQ(
      flotilla(1, {"train", deck, "train.epochs=0", "train.steps=1", "run.output=" + folder.path("run")})
          .exit_code,
      0);
  std::filesystem::rename(folder.path("run"), here + "/run");

  const Result result = run({"env", "--chdir=" + here, FLOTILLA_EXECUTABLE, "evaluate", "run"});

  EXPECT_EQ(result.exit_code, 2) << result.errors;
  EXPECT_NE(result.errors.find("a\\xFFb/run/checkpoints/step-00000001.h5\", which is not UTF-8"),
            std::string::npos)
      << result.errors;
}

TEST(BadInput, AMissingDeckIsTold) {
  const Result result = flotilla(2, {"train", "/nowhere/deck.toml"});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_NE(result.errors.find("/nowhere/deck.toml"), std::string::npos) << result.errors;
}

TEST(BadInput, AWrongCommandIsTold) {
  const Result result = flotilla(2, {"trian"});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
}

TEST(BadInput, MissingDataIsTold) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"data.train.images=/nowhere/images.gz"}, folder);

  EXPECT_NE(errors.find("data.train.images: cannot open '/nowhere/images.gz'"), std::string::npos) << errors;
}

TEST(BadInput, AllMissingDataAreToldAtOnceWithTheirKeys) {
  const TemporaryFolder folder;
  Arguments keys;
  for (const char* key :
       {"data.train.images", "data.train.labels", "data.validation.images", "data.validation.labels"})
    keys.push_back(std::string(key) + "=/nowhere/" + key);

  const std::string errors = errors_of(keys, folder);

  EXPECT_NE(errors.find("flotilla: 4 files of data cannot be read:\n"), std::string::npos) << errors;
  for (const char* key :
       {"data.train.images", "data.train.labels", "data.validation.images", "data.validation.labels"})
    EXPECT_NE(errors.find(std::string("flotilla:   ") + key + ": cannot open '/nowhere/" + key + "'"),
              std::string::npos)
        << errors;
}

TEST(BadInput, AnotherWidthIsNotTakenForAnotherNumberOfClasses) {
  const TemporaryFolder folder;
  ASSERT_EQ(flotilla(1, {"train", deck, "train.steps=1", "run.output=" + folder.path("run")}).exit_code, 0);

  for (const char* widths : {"model.widths=32,32", "model.widths=32", "model.widths=128"}) {
    const Result result = flotilla(1, {"evaluate", folder.path("run"), widths});

    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(result.errors.find("classes"), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("parameters/fc"), std::string::npos) << result.errors;
  }
}

TEST(BadInput, ExchangedImagesAndLabelsAreTold) {
  TemporaryFolder folder;
  const std::string labels = source_path("inputs/data/mnist/train-labels-idx1-ubyte.gz");

  const std::string errors = errors_of({"data.train.images=" + labels}, folder);

  EXPECT_NE(errors.find("train-labels-idx1-ubyte.gz"), std::string::npos) << errors;
}

TEST(BadInput, TooFewClassesAreToldWithThePositionOfTheLabel) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"model.classes=5"}, folder);

  EXPECT_NE(errors.find("model.classes"), std::string::npos) << errors;
}

TEST(BadInput, ABatchLargerThanTheDataIsTold) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"train.batch_size=20000"}, folder);

  EXPECT_NE(errors.find("10000"), std::string::npos) << errors;
}

TEST(BadInput, WorkersThatDoNotDivideTheGlobalBatchAreToldWhichDo) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"train.global_batch_size=64"}, folder, 3);

  EXPECT_NE(errors.find("1, 2, 4, 8, 16, 32, 64"), std::string::npos) << errors;
}

TEST(BadInput, AnOutputThatIsAFileIsTold) {
  TemporaryFolder folder;
  write_file(folder.path("file"), "here");

  const Result result = flotilla(2, {"train", deck, "run.output=" + folder.path("file")});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_EQ(read_file(folder.path("file")), "here");
}

TEST(BadInput, AnOutputThatTheSystemCannotLookUpIsTold) {
  TemporaryFolder folder;
  std::filesystem::create_symlink("loop", folder.path("loop"));
  for (const std::string& name : {std::string("loop"), std::string(300, 'a')}) {
    const Result result = flotilla(2, {"train", deck, "run.output=" + folder.path(name)});

    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
    EXPECT_NE(result.errors.find(folder.path(name)), std::string::npos) << result.errors;
  }
}

TEST(BadInput, InitialWeightsThatAreNotThereAreToldBeforeAnythingIsWritten) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"model.initial_weights=/nowhere/model.h5"}, folder);
  const std::string checked = errors_of({"model.initial_weights=/nowhere/model.h5", "--check"}, folder);

  EXPECT_NE(errors.find("model.initial_weights: cannot open '/nowhere/model.h5'"), std::string::npos)
      << errors;
  EXPECT_NE(checked.find("/nowhere/model.h5"), std::string::npos) << checked;
}

TEST(BadInput, ATraceThatCannotBeWrittenIsToldOnce) {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("run"));
  write_file(folder.path("run/trace"), "a file");

  const Result result =
      flotilla(2, {"train", deck, "run.output=" + folder.path("run"), "train.steps=3", "run.trace=true"});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
}

TEST(BadInput, ALauncherOfAnotherMpiIsToldOnceInsteadOfTrainingInEachProcessAlone) {
  const TemporaryFolder folder;
  for (const std::string number : {"0", "1"}) {
    const Result result = run({"env", "-u", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE=2", "PMI_RANK=" + number,
                               FLOTILLA_EXECUTABLE, "train", deck, "run.output=" + folder.path("run")});

    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_EQ(count(result.errors, "flotilla: a launcher for MPICH started 2 processes, but "),
              number == "0" ? 1 : 0)
        << result.errors;
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("run"))) << "something was written";
}

TEST(BadInput, AGpuThatWasNotBuiltInIsTold) {
  TemporaryFolder folder;

  const std::string errors = errors_of({"device.kind=cuda"}, folder);

  EXPECT_NE(errors.find("FLOTILLA_CUDA"), std::string::npos) << errors;
}

TEST(BadInput, AKeyOfAnotherKindIsDroppedAndToldWhenTheKindIsOverridden) {
  TemporaryFolder folder;

  const Result result = flotilla(
      1, {"train", deck, "run.output=" + folder.path("run"), "train.steps=3", "optimizer.kind=momentum"});

  EXPECT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NE(result.output.find("optimizer.beta1"), std::string::npos) << result.output;
}

/// Rank 0 is started with the first arguments, rank 1 with the second.
Result apart(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  std::vector<std::string> command = flotilla_command(1, first);
  command.push_back(":");
  for (const std::string& word : flotilla_command(1, second))
    if (word != FLOTILLA_MPIEXEC) command.push_back(word);
  return run(command);
}

TEST(BadInput, RanksThatAreStartedDifferentlyAreRefused) {
  const TemporaryFolder folder;
  const std::string run = "run.output=" + folder.path("run");
  const std::vector<std::string> train = {"train", deck, run};

  expect_told(apart(train, {"evaluate", folder.path("run")}),
              "rank 1 was started as \"flotilla evaluate " + folder.path("run") +
                  "\", and rank 0 as \"flotilla train " + deck + "\": give all ranks the same arguments");
  expect_told(apart(train, {"train", source_path("inputs/cnn_mnist.toml"), run}), "rank 1 was started as ");
  expect_told(apart(train, {"train", deck, run, "--check"}), " --check\", and rank 0 as ");
  expect_told(apart(train, {"inspect", folder.path("run")}), " started 2: start it without a launcher");
  EXPECT_FALSE(std::filesystem::exists(folder.path("run")));
}

}  // namespace
}  // namespace flotilla::test
