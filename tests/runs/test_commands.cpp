// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <regex>

#include "tests/runs/program.hpp"
#include "tests/support/within.hpp"

// The commands other than `train`, on the checkpoint of a short training.

namespace flotilla::test {
namespace {

class Commands : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder = new TemporaryFolder;
    const Result result =
        flotilla(2, {"train", source_path("inputs/mnist_mlp.toml"), "run.output=" + run_folder(),
                     "train.steps=60", "checkpoint.every=20"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }
  static void TearDownTestSuite() {
    delete folder;
    folder = nullptr;
  }
  static std::string run_folder() { return folder->path("run"); }
  static std::string path(const std::string& name) { return folder->path(name); }

  static TemporaryFolder* folder;
};
TemporaryFolder* Commands::folder = nullptr;

TEST_F(Commands, EvaluateCountsEverySampleOnceOnAnyNumberOfRanks) {
  const auto trained = last_metrics(run_folder(), "validation");
  char expected[64];
  std::snprintf(expected, sizeof(expected), "top-1       %.5f", trained.at("accuracy_top1").get<double>());
  for (const int ranks : {1, 3, 4}) {
    for (const char* batch : {"validation.batch_size=64", "validation.batch_size=7"}) {
      const Result result = flotilla(ranks, {"evaluate", run_folder(), batch});

      ASSERT_EQ(result.exit_code, 0) << result.errors;
      EXPECT_NE(result.output.find("samples     2000"), std::string::npos) << result.output;
      EXPECT_NE(result.output.find(expected), std::string::npos) << result.output;
    }
  }
}

TEST_F(Commands, EvaluateDoesNotOpenTheTrainingData) {
  const Result result = flotilla(1, {"evaluate", run_folder(), "data.train.images=/nowhere"});

  EXPECT_EQ(result.exit_code, 0) << result.errors;
}

TEST_F(Commands, EvaluateFailsIfTheLossIsNotFinite) {
  // Weights of 1e20 are finite; what two layers make of them is not.
  ASSERT_EQ(flotilla(1, {"train", source_path("inputs/mnist_mlp.toml"), "run.output=" + path("large"),
                         "train.steps=1", "validation.every=1000000", "optimizer.kind=sgd",
                         "schedule.learning_rate=1e22", "model.activation=relu"})
                .exit_code,
            0);

  const Result result =
      flotilla(2, {"evaluate", path("large"), "--vectors", path("large.h5"), "validation.batch_size=64"});

  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.errors.find("is NaN, first in the batch that begins at sample 0 (counted from 0)"),
            std::string::npos)
      << result.errors;
  EXPECT_FALSE(std::filesystem::exists(path("large.h5")));
}

/// The values of /vectors, as another program reads them.
std::vector<float> dumped(const std::string& file) {
  const Result result = run({"h5dump", "-d", "/vectors", "-b", "NATIVE", "-o", file + ".bin", file});
  EXPECT_EQ(result.exit_code, 0) << result.errors;
  const std::string bytes = read_file(file + ".bin");
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

TEST_F(Commands, EvaluateWritesTheSameVectorsOnAnyNumberOfRanks) {
  for (const int ranks : {1, 3}) {
    const std::string file = path("vectors" + std::to_string(ranks) + ".h5");
    const Result result = flotilla(ranks, {"evaluate", run_folder(), "--vectors", file});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
  }

  const std::vector<float> one = dumped(path("vectors1.h5"));
  const std::vector<float> three = dumped(path("vectors3.h5"));

  ASSERT_EQ(one.size(), 20000U);
  ASSERT_EQ(three.size(), 20000U);
  // Sums of 784 products in another order for another size of batch.
  EXPECT_TRUE(test::within(one, three, 784 * float_rounding));
}

TEST_F(Commands, EvaluateDoesNotWriteVectorsOverTheCheckpoint) {
  const std::string checkpoint = run_folder() + "/checkpoints/step-00000060.h5";
  const std::string before = read_file(checkpoint);

  const Result result = flotilla(2, {"evaluate", run_folder(), "--vectors", checkpoint});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
  EXPECT_EQ(read_file(checkpoint), before);
}

TEST_F(Commands, ExportGivesAModelThatEvaluatesAlikeAndStartsAnotherTraining) {
  const std::string model = path("model.h5");

  const Result exported = run({FLOTILLA_EXECUTABLE, "export", run_folder(), model});
  const Result from_run = flotilla(1, {"evaluate", run_folder()});
  const Result from_model = flotilla(1, {"evaluate", model});
  const Result training =
      flotilla(1, {"train", source_path("inputs/mnist_mlp.toml"), "run.output=" + path("again"),
                   "train.steps=1", "schedule.learning_rate=1e-9", "model.initial_weights=" + model});
  const Result checked = flotilla(
      1, {"train", source_path("inputs/mnist_mlp.toml"), "--check", "model.initial_weights=" + run_folder()});
  const Result resumed = flotilla(1, {"train", source_path("inputs/mnist_mlp.toml"),
                                      "run.output=" + path("third"), "train.steps=1", "run.resume=" + model});

  ASSERT_EQ(exported.exit_code, 0) << exported.errors;
  ASSERT_EQ(from_model.exit_code, 0) << from_model.errors;
  const auto results = [](const Result& result) {
    return result.output.substr(result.output.find("samples "));
  };
  EXPECT_EQ(results(from_model), results(from_run));
  EXPECT_LT(std::filesystem::file_size(model),
            std::filesystem::file_size(run_folder() + "/checkpoints/step-00000060.h5"));
  EXPECT_EQ(checked.exit_code, 0) << checked.errors;
  EXPECT_NE(checked.output.find("loaded 6 of 6 tensors from "), std::string::npos) << checked.output;
  ASSERT_EQ(training.exit_code, 0) << training.errors;
  EXPECT_NE(training.output.find("loaded 6 of 6 tensors from "), std::string::npos) << training.output;
  EXPECT_TRUE(test::within(last_metrics(path("again"), "validation").at("loss").get<double>(),
                           last_metrics(run_folder(), "validation").at("loss").get<double>(), 1e-4));
  EXPECT_EQ(resumed.exit_code, 2);
}

TEST_F(Commands, EvaluateTakesAFileOfWeightsWithADeckOnly) {
  const std::string weights = path("weights.h5");
  const Result copied = run({"h5copy", "-i", run_folder() + "/checkpoints/step-00000060.h5", "-o", weights,
                             "-s", "/parameters", "-d", "/parameters"});
  ASSERT_EQ(copied.exit_code, 0) << copied.errors;

  const Result with_deck = flotilla(2, {"evaluate", weights, run_folder() + "/deck.toml"});
  const Result from_run = flotilla(2, {"evaluate", run_folder()});
  const Result without = flotilla(2, {"evaluate", weights});

  ASSERT_EQ(with_deck.exit_code, 0) << with_deck.errors;
  EXPECT_EQ(with_deck.output.substr(with_deck.output.find("samples ")),
            from_run.output.substr(from_run.output.find("samples ")));
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_NE(without.errors.find("holds weights only: give a deck"), std::string::npos) << without.errors;
}

TEST_F(Commands, InspectPrintsATableAndJson) {
  const Result table = run({FLOTILLA_EXECUTABLE, "inspect", run_folder()});
  const Result json = run({FLOTILLA_EXECUTABLE, "inspect", "--json", run_folder()});

  ASSERT_EQ(table.exit_code, 0) << table.errors;
  EXPECT_NE(table.output.find("fc1.weight"), std::string::npos) << table.output;
  ASSERT_EQ(json.exit_code, 0) << json.errors;
  EXPECT_EQ(nlohmann::json::parse(json.output).at("step"), 60);
}

TEST_F(Commands, InspectOfADamagedFileEndsWithTwo) {
  std::string bytes = read_file(run_folder() + "/checkpoints/step-00000060.h5");
  bytes[bytes.size() - 5000] = static_cast<char>(bytes[bytes.size() - 5000] ^ 8);
  write_file(path("damaged.h5"), bytes);

  const Result result = run({FLOTILLA_EXECUTABLE, "inspect", path("damaged.h5")});

  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(count(result.errors, "flotilla: "), 1) << result.errors;
}

TEST_F(Commands, KeepsTheLastCheckpointsInNamesThatScriptsKnow) {
  for (const char* step : {"20", "40", "60"})
    EXPECT_TRUE(std::filesystem::exists(run_folder() + "/checkpoints/step-000000" + step + ".h5")) << step;
}

TEST_F(Commands, HelpAndVersionNeedNoMpi) {
  const Result help = run({FLOTILLA_EXECUTABLE, "--help"});
  const Result train_help = run({FLOTILLA_EXECUTABLE, "train", "--help"});
  const Result version = run({FLOTILLA_EXECUTABLE, "--version"});

  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(train_help.exit_code, 0);
  EXPECT_EQ(version.exit_code, 0);
  for (const char* library : {"MPI", "oneDNN", "Kokkos", "HDF5", "CUDA", "NCCL"})
    EXPECT_NE(version.output.find(library), std::string::npos) << library;
}

TEST_F(Commands, MakeDataWritesClickLogsAndSaysWhatIsTheirBest) {
  const Result made = run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "500", "--valid-rows", "100",
                           "--output", path("clicks.tsv"), "--truth", path("truth.txt")});
  const Result refused =
      run({FLOTILLA_EXECUTABLE, "make-data", "criteo", "--rows", "5", "--output", "/proc/clicks.tsv"});

  ASSERT_EQ(made.exit_code, 0) << made.errors;
  EXPECT_EQ(count(made.output, "the true probabilities reach AUC 0."), 2) << made.output;
  EXPECT_EQ(count(read_file(path("clicks.tsv")), "\n"), 500);
  EXPECT_EQ(count(read_file(path("clicks.tsv")), "\t"), 500 * 39);
  EXPECT_EQ(count(read_file(path("truth.valid.txt")), "\n"), 100);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.errors.find("/proc/clicks.tsv"), std::string::npos) << refused.errors;
}

TEST_F(Commands, BenchesPrintTablesAndJson) {
  const Result all_reduce =
      flotilla(2, {"bench", "all-reduce", "--bytes", "4K", "--json", path("all-reduce.json")});
  const Result step =
      flotilla(2, {"bench", "step", source_path("inputs/mnist_mlp.toml"), "run.output=" + path("bench"),
                   "--steps", "40", "--checkpoint-every", "20", "--json", path("step.json")});

  ASSERT_EQ(all_reduce.exit_code, 0) << all_reduce.errors;
  const auto rows = nlohmann::json::parse(read_file(path("all-reduce.json")));
  bool mpi = false;
  bool shared_memory = false;
  for (const auto& row : rows) {
    EXPECT_EQ(row.at("bytes"), 4096);
    EXPECT_GT(row.at("time_us"), 0.0);
    mpi = mpi || (row.at("algorithm") == "mpi" && row.at("correct"));
    shared_memory = shared_memory || (row.at("algorithm") == "shared-memory" && row.at("correct"));
  }
  EXPECT_TRUE(mpi && shared_memory);
  EXPECT_TRUE(std::regex_search(
      all_reduce.output,
      std::regex("\nfastest in float32: .* for 4096 bytes\n"
                 "figure bytes=4096 time_us=[0-9.e+]+ busbw_gb_s=[0-9.e+-]+\nvalid: yes\n$")))
      << all_reduce.output;
  ASSERT_EQ(step.exit_code, 0) << step.errors;
  const auto figures = nlohmann::json::parse(read_file(path("step.json")));
  EXPECT_GT(figures.at("fraction"), 0.0);
  double sum = 0.0;
  for (const char* phase : {"input", "forward", "backward", "exposed_comm", "optimizer", "rest"})
    sum += figures.at(std::string(phase) + "_us").get<double>();
  EXPECT_TRUE(test::within(sum, figures.at("step_us").get<double>(), 1e-6 * sum));
  EXPECT_GT(figures.at("step_mean_us"), 0.0);
  EXPECT_GT(figures.at("checkpoint_stall_us"), 0.0);
  EXPECT_TRUE(figures.at("valid"));
  EXPECT_GT(figures.at("loss_of_step_3"), 0.0);
  EXPECT_LT(figures.at("slowest_rank"), 2);
  EXPECT_TRUE(std::regex_search(
      step.output,
      std::regex("\nslowest: rank [01] on [^\n]+\nfigure samples_per_s=[0-9.e+]+ step_ms=[0-9.e+-]+ "
                 "exposed_ms=[0-9.e+-]+ efficiency=[0-9.]+\nvalid: yes\n$")))
      << step.output;
  EXPECT_NE(step.output.find(", 2 workers, global batch 128"), std::string::npos) << step.output;
}

TEST_F(Commands, BenchesReplaceNoWeightsThatTheyReadAlsoOfRandomData) {
  write_file(path("weights.h5"), "weights");

  const Result refused =
      flotilla(1, {"bench", "step", source_path("inputs/mlp_random.toml"),
                   "model.initial_weights=" + path("weights.h5"), "--json", path("weights.h5")});

  expect_told(refused, "cannot write '" + path("weights.h5") + "': it is the file that is being read");
  EXPECT_EQ(read_file(path("weights.h5")), "weights");
}

}  // namespace
}  // namespace flotilla::test
