// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "src/checkpoint/checkpoint_file.hpp"
#include "src/commands/export.hpp"
#include "src/commands/inspect.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/within.hpp"

namespace flotilla {

namespace {

void ignore(const std::string&) {}

}  // namespace

using Inspect = test::InFolder;
using Export = test::InFolder;

TEST_F(Inspect, ShowsStateAndStatisticsAsJson) {
  Snapshot snapshot = sample_snapshot(400);
  snapshot.of(snapshot.tensors[1])[2] = std::nanf("");  // layers.0.bias: 400.25, 401.25, not a number
  write_checkpoint_file(folder.path("a.h5"), snapshot);

  const Inspection inspection = inspect(folder.path("a.h5"), {.json = true});
  const auto json = nlohmann::json::parse(inspection.text);

  EXPECT_EQ(inspection.damage, "");
  EXPECT_EQ(json["step"], 400);
  EXPECT_EQ(json["epoch"], 3);
  EXPECT_EQ(json["offset"], 512);
  EXPECT_EQ(json["seed"], -7);
  EXPECT_EQ(json["deck"], snapshot.state.deck);
  EXPECT_EQ(json["versions"]["oneDNN"], "2.6.3");
  EXPECT_EQ(json["choices"]["strategy.all_reduce"], "shared-memory");
  ASSERT_EQ(json["tensors"].size(), 8U);
  const auto& bias = json["tensors"][1];
  EXPECT_EQ(bias["path"], "parameters/layers.0.bias");
  EXPECT_EQ(bias["shape"], nlohmann::json({3}));
  EXPECT_EQ(bias["mean"], 400.75);
  EXPECT_TRUE(test::within_double_roundings(bias["rms"].get<double>(),
                                            std::sqrt((400.25 * 400.25 + 401.25 * 401.25) / 2), 4));
  EXPECT_EQ(bias["min"], 400.25);
  EXPECT_EQ(bias["max"], 401.25);
  EXPECT_EQ(bias["non_finite"], 1);
  EXPECT_EQ(bias["checksum"], "ok");
}

TEST_F(Inspect, ShowsATableAndTheDeckOnRequest) {
  write_checkpoint_file(folder.path("step-00000400.h5"), sample_snapshot(400));

  const std::string plain = inspect(folder.path(), {}).text;
  const std::string with_deck = inspect(folder.path(), {.deck = true}).text;

  EXPECT_TRUE(mentions(plain, {"step            400", "oneDNN 2.6.3", "strategy.all_reduce shared-memory",
                               "parameters/conv.weight", "2x1x3x3", "scalar", "ok", "8 with 84 values",
                               "training data   10000 samples", "numbers         first loss 0.1, period 8"}));
  EXPECT_FALSE(mentions(plain, {"epochs = 3"}));
  EXPECT_TRUE(mentions(with_deck, {"[train]\nepochs = 3\n"}));
}

TEST_F(Inspect, ShowsTheRestOfADamagedFileAndSaysWhatIsDamaged) {
  const std::string path = folder.path("a.h5");
  const Snapshot snapshot = sample_snapshot(400);
  write_checkpoint_file(path, snapshot);
  const auto value = std::as_bytes(snapshot.of(snapshot.tensors[0]));
  const auto whole = bytes_of(path);
  const auto at = std::search(whole.begin(), whole.end(), value.begin(), value.end());
  put_byte(path, static_cast<std::size_t>(at - whole.begin()), std::byte{1});
  delete_attribute(path, "/", "epoch");

  const Inspection inspection = inspect(path, {});

  EXPECT_TRUE(mentions(inspection.damage, {path, "no attribute epoch", "/parameters/layers.0.weight"}));
  EXPECT_TRUE(mentions(inspection.text, {"step            400", "damaged", "ok"}));
}

TEST_F(Inspect, ShowsWeightsOfOtherProgramsWithoutChecksums) {
  add_dataset(folder.path("w.h5"), "parameters/fc.weight", {2}, {1.0F, 3.0F}, Stored::float64);

  const Inspection inspection = inspect(folder.path("w.h5"), {.json = true});
  const auto json = nlohmann::json::parse(inspection.text);

  EXPECT_EQ(inspection.damage, "");
  EXPECT_EQ(json["tensors"][0]["checksum"], "none");
  EXPECT_EQ(json["tensors"][0]["mean"], 2.0);
  EXPECT_FALSE(json.contains("step"));
}

TEST_F(Inspect, EscapesControlCharactersOfNames) {
  add_dataset(folder.path("w.h5"), "parameters/w\033[31m\nred", {2}, {1.0F, 3.0F});

  const std::string text = inspect(folder.path("w.h5"), {}).text;

  EXPECT_TRUE(mentions(text, {"parameters/w\\u001B[31m\\u000Ared"}));
}

TEST_F(Inspect, RefusesWhatIsNoHdf5File) {
  put_bytes(folder.path("a.h5"), std::vector<std::byte>(100));

  EXPECT_TRUE(mentions(
      error_of([&] { inspect(folder.path("a.h5"), {}); }),
      {folder.path("a.h5"), "a file that begins with zeros, not a checkpoint or a file of weights (HDF5)"}));
}

TEST(CheckpointFile, SaysWhetherAFileKeepsTheOrderOfItsTensors) {
  const test::TemporaryFolder folder;
  write_checkpoint_file(folder.path("own.h5"), sample_snapshot(400));
  add_dataset(folder.path("w.h5"), "parameters/fc.weight", {2}, {1.0F, 3.0F}, Stored::float64);

  EXPECT_TRUE(CheckpointFile(folder.path("own.h5"), CheckpointFile::Content::weights).keeps_order());
  EXPECT_FALSE(CheckpointFile(folder.path("w.h5"), CheckpointFile::Content::weights).keeps_order());
}

TEST_F(Inspect, NamesTheScriptThatConvertsFilesOfPyTorch) {
  constexpr std::string_view zip("PK\3\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x0A\0\0\0a/data.pkl",
                                 40);
  const auto bytes = std::as_bytes(std::span(zip));
  put_bytes(folder.path("a.pt"), {bytes.begin(), bytes.end()});

  const std::string told = error_of([&] { inspect(folder.path("a.pt"), {}); });

  EXPECT_TRUE(mentions(
      told, {"python3 scripts/torch_to_hdf5.py " + folder.path("a.pt") + " " + folder.path("a.h5")}));
  EXPECT_EQ(told.find("H5F"), std::string::npos) << told;
}

TEST_F(Export, DoesNotReplaceACheckpointThatARunResumesFrom) {
  const std::string older = folder.path("step-00000300.h5");
  const std::string model = folder.path("model.h5");
  write_checkpoint_file(older, sample_snapshot(300));
  write_checkpoint_file(folder.path("step-00000400.h5"), sample_snapshot(400));
  const auto before = bytes_of(older);

  const std::string refused = error_of([&] { export_model(folder.path(), older, ignore); });
  export_model(folder.path(), model, ignore);
  export_model(folder.path(), model, ignore);  // an exported model can be made again

  EXPECT_TRUE(mentions(refused, {older, "it is a checkpoint that a run resumes from", "give another name"}));
  EXPECT_EQ(bytes_of(older), before);
}

TEST_F(Export, KeepsModelAndDeckAndLeavesTheOptimizerOut) {
  std::filesystem::create_directory(folder.path("run"));
  Snapshot checkpoint = sample_snapshot(400);
  checkpoint.state.parts = {{.name = "worker-0000.h5", .bytes = 7, .checksum = 9}};
  write_checkpoint_file(folder.path("run/step-00000400.h5"), checkpoint);
  put_bytes(folder.path("model.h5"), std::vector<std::byte>(10));

  const std::string taken = export_model(folder.path("run"), folder.path("model.h5"), ignore);
  const Snapshot model = read_checkpoint(folder.path("model.h5"));

  EXPECT_EQ(taken, folder.path("run/step-00000400.h5"));
  Snapshot expected = sample_snapshot(400);
  expected.tensors.resize(4);
  expected.state.inference_only = true;
  expected.state.numbers.clear();
  EXPECT_TRUE(equal(model, expected));
}

TEST_F(Export, RefusesWeightsWithoutDeckAndFoldersThatDoNotExist) {
  add_dataset(folder.path("w.h5"), "parameters/x", {1}, {1.0F});
  write_checkpoint_file(folder.path("a.h5"), sample_snapshot(1));

  EXPECT_TRUE(mentions(error_of([&] { export_model(folder.path("w.h5"), folder.path("out.h5"), ignore); }),
                       {"w.h5", "no deck"}));
  EXPECT_TRUE(mentions(error_of([&] { export_model(folder.path("a.h5"), folder.path("no/out.h5"), ignore); }),
                       {folder.path("no/out.h5"), "No such file"}));
}

TEST_F(Export, ReplacesNeitherTheCheckpointNorWhatIsNoRegularFile) {
  write_checkpoint_file(folder.path("a.h5"), sample_snapshot(1));
  const auto before = bytes_of(folder.path("a.h5"));
  ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);  // as /dev/null is, which root could replace

  for (const std::string& out : {folder.path("a.h5"), folder.path("./a.h5"), folder.path("pipe")}) {
    EXPECT_TRUE(mentions(error_of([&] { export_model(folder.path("a.h5"), out, ignore); }),
                         {out, "give another name"}));
  }

  EXPECT_EQ(bytes_of(folder.path("a.h5")), before);
  EXPECT_TRUE(std::filesystem::is_fifo(folder.path("pipe")));
}

}  // namespace flotilla
