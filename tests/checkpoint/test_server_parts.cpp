// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/commands/export.hpp"
#include "src/commands/inspect.hpp"
#include "tests/checkpoint/row_samples.hpp"
#include "tests/checkpoint/samples.hpp"
#include "tests/checkpoint/tamper.hpp"
#include "tests/checkpoint/whole_files.hpp"
#include "tests/support/in_folder.hpp"
#include "tests/support/temporary_folder.hpp"

// Checkpoints to which servers add parts: files of rows.

namespace flotilla {

namespace {

using Names = std::vector<std::string>;

std::vector<Rows> sample_tables(std::uint64_t seed = 0) {
  return {sample_rows({.name = "ids", .width = 10, .slots = {"first", "second"}, .rows = 100}, seed),
          sample_rows({.name = "wide", .width = 1, .slots = {}, .rows = 2}, seed)};
}

/// The rows as an export holds them.
Rows without_slots(Rows rows) {
  rows.table.slots.clear();
  rows.slots.clear();
  return rows;
}

std::string found_in(const std::string& folder, int workers, std::string& complaints) {
  return find_newest_good(
             folder, [&](const std::string& text) { complaints += text; }, workers)
      .value_or("");
}

class FailingSource : public SnapshotSource {
 public:
  using SnapshotSource::SnapshotSource;
  std::span<const float> values(std::size_t) override { throw UserError("the cable was cut"); }
};

void ignore(const std::string&) {}

std::string error_of_export(const std::string& from, const std::string& to) {
  return error_of([&] { export_model(from, to, ignore); });
}

}  // namespace

using ServerParts = test::InFolder;
using ExportOfServerParts = test::InFolder;
using InspectOfServerParts = test::InFolder;

TEST_F(ServerParts, LieBesideTheCheckpointThatNamesThem) {
  const std::string path = save_with_servers(folder.path(), 7, sample_tables(), 3);
  const Snapshot checkpoint = read_checkpoint(path);

  EXPECT_EQ(folder.names(), (Names{"step-00000007.h5", "step-00000007.parts"}));
  ASSERT_EQ(checkpoint.state.server_parts.size(), 3U);
  for (std::size_t server = 0; server < 3; ++server) {
    const CheckpointPart& part = checkpoint.state.server_parts[server];
    const auto reader = open_server_part(path, part);
    EXPECT_EQ(part.name, cat("server-000", server, ".h5"));
    EXPECT_EQ(part_damage(path, part), "");
    for (std::size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(equal(read_rows(*reader, i), share_of(sample_tables()[i], server, 3)));
  }
}

TEST_F(ServerParts, AreCountedInWhatWasWritten) {
  Save save = save_of(sample_snapshot(7));
  save.state.server_parts = {{.name = "server-0000.h5", .bytes = 5000000, .checksum = 1}};
  CheckpointFolder(folder.path()).make_parts(7);
  CheckpointWriter writer(folder.path(), 1);

  writer.start(std::move(save));
  writer.finish();

  const SaveReport report = writer.reports().at(0);
  EXPECT_EQ(report.bytes, 5000000 + static_cast<std::int64_t>(bytes_of(report.path).size()));
}

TEST_F(ServerParts, OfASaveThatFailedAreRemoved) {
  save_with_servers(folder.path(), 1, sample_tables(), 1);
  CheckpointWriter writer(folder.path(), 1);
  const CheckpointFolder checkpoints(folder.path());
  checkpoints.make_parts(2);
  Save save = {.state = sample_snapshot(2).state,
               .shared = std::make_shared<FailingSource>(sample_snapshot(2))};
  save.state.server_parts = {write_rows(checkpoints.server_part_path(2, 0), sample_tables(), save.state)};

  writer.start(std::move(save));
  writer.finish();

  EXPECT_TRUE(mentions(writer.reports().at(0).error, {"step 2 was not saved", "the cable was cut"}));
  EXPECT_EQ(folder.names(), (Names{"step-00000001.h5", "step-00000001.parts"}));
}

TEST_F(ServerParts, WithoutACheckpointAreRemovedAtTheNextStart) {
  for (const std::int64_t step : {1, 2}) save_with_servers(folder.path(), step, sample_tables(), 2);
  std::filesystem::remove(folder.path("step-00000002.h5"));
  put_bytes(folder.path("step-00000002.parts/server-0001.h5.tmp-5"), {});

  const CheckpointWriter next(folder.path(), 2);

  EXPECT_EQ(folder.names(), (Names{"step-00000001.h5", "step-00000001.parts"}));
}

TEST_F(ServerParts, GoWithTheCheckpointThatIsNotKept) {
  save_with_servers(folder.path(), 1, sample_tables(), 2);
  CheckpointWriter writer(folder.path(), 1);

  writer.start(save_of(sample_snapshot(2)));
  writer.finish();

  EXPECT_EQ(folder.names(), (Names{"step-00000002.h5"}));
}

TEST_F(ServerParts, ThatAreMissingOrDamagedMatterToEverybody) {
  const std::string older = save_with_servers(folder.path(), 1, sample_tables(), 3);
  const std::string newer = save_with_servers(folder.path(), 2, sample_tables(1), 3);
  const std::string part = folder.path("step-00000002.parts/server-0001.h5");
  const auto whole = bytes_of(part);
  const auto check = [&](const Names& words) {
    for (const int workers : {-1, 0, 1, 4}) {
      std::string complaints;
      EXPECT_EQ(found_in(folder.path(), workers, complaints), older);
      EXPECT_TRUE(mentions(complaints, {newer, "server-0001.h5"}));
      EXPECT_TRUE(mentions(complaints, words));
    }
    EXPECT_TRUE(mentions(inspect(newer, {}).damage, {"server-0001.h5"}));
    EXPECT_TRUE(mentions(inspect(newer, {}).damage, words));
    EXPECT_TRUE(mentions(error_of_export(newer, folder.path("model.h5")), {"server-0001.h5"}));
    EXPECT_TRUE(mentions(error_of_export(newer, folder.path("model.h5")), words));
    EXPECT_EQ(folder.names(),
              (Names{"step-00000001.h5", "step-00000001.parts", "step-00000002.h5", "step-00000002.parts"}));
  };

  std::filesystem::remove(part);
  check({"No such file"});
  put_bytes(part, {whole.begin(), whole.end() - 9});
  check({"damaged"});
  auto flipped = whole;
  const Rows share = share_of(sample_tables(1)[0], 1, 3);
  const auto value = std::as_bytes(std::span(share.values));
  std::ranges::search(flipped, value).front() ^= std::byte{1};
  put_bytes(part, flipped);
  check({"/rows/ids/values"});
  put_bytes(part, bytes_of(folder.path("step-00000001.parts/server-0001.h5")));
  check({"another save"});
  put_bytes(part, whole);
  std::string complaints;
  EXPECT_EQ(found_in(folder.path(), -1, complaints), newer);
  EXPECT_EQ(complaints, "");
}

TEST_F(ServerParts, CheckpointsOfTheSecondSchemaHaveNone) {
  Snapshot written = sample_snapshot(400);
  written.state.schema = 2;

  write_checkpoint_file(folder.path("a.h5"), written);

  EXPECT_TRUE(equal(read_checkpoint(folder.path("a.h5")), written));
}

TEST_F(ExportOfServerParts, HoldsAllRowsInTheOrderOfTheirKeysWithoutOptimizerState) {
  save_with_servers(folder.path(), 7, sample_tables(), 3);

  export_model(folder.path(), folder.path("model.h5"), ignore);
  RowFileReader reader(folder.path("model.h5"));
  const Snapshot dense = read_weights(folder.path("model.h5"));

  ASSERT_EQ(reader.tables().size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(equal(read_rows(reader, i), without_slots(sample_tables()[i]))) << i;
  EXPECT_TRUE(dense.state.inference_only);
  EXPECT_TRUE(dense.state.server_parts.empty());
  EXPECT_EQ(dense.tensors.size(), 4U);
}

TEST_F(ExportOfServerParts, OfAnExportKeepsItsRows) {
  save_with_servers(folder.path(), 7, sample_tables(), 2);

  export_model(folder.path(), folder.path("model.h5"), ignore);
  export_model(folder.path("model.h5"), folder.path("again.h5"), ignore);

  EXPECT_EQ(bytes_of(folder.path("again.h5")), bytes_of(folder.path("model.h5")));
}

TEST_F(ExportOfServerParts, WithRowsTwiceOrOtherTablesIsRefused) {
  const std::string path = save_with_servers(folder.path(), 7, sample_tables(), 2);
  const std::string second = folder.path("step-00000007.parts/server-0001.h5");
  const auto error_with = [&](std::vector<Rows> tables) {
    Snapshot checkpoint = read_checkpoint(path);
    checkpoint.state.server_parts[1] = write_rows(second, std::move(tables), checkpoint.state);
    write_checkpoint_file(path, checkpoint);
    return error_of_export(path, folder.path("model.h5"));
  };

  const auto key = cat("row ", sample_tables()[0].keys[0], " ");
  EXPECT_TRUE(mentions(error_with(sample_tables()), {"server-000", key, "/rows/ids"}));
  EXPECT_TRUE(mentions(error_with({sample_tables()[0]}), {second, "the same tables"}));
}

TEST(MergedRows, OfManyPiecesAreThoseOfOneFile) {
  const test::TemporaryFolder folder;
  // Shares of very different sizes and beyond a piece each, so that parts are refilled and end at other
  // times.
  const Rows all = sample_rows({.name = "t", .width = 3, .slots = {}, .rows = 200001});
  std::vector<std::unique_ptr<RowFileReader>> parts;
  for (const std::size_t server : {0, 1, 2}) {
    const std::string path = folder.path(cat("server-000", server, ".h5"));
    Rows share = share_of(all, server == 0 ? 0 : server == 1 ? 1 : 3, server == 0 ? 2 : 4);
    write_rows(path, {share}, sample_snapshot(1).state);
    parts.push_back(std::make_unique<RowFileReader>(path));
  }

  MergedRows merged(std::move(parts));

  EXPECT_TRUE(equal(read_rows(merged, 0), all));
}

TEST_F(InspectOfServerParts, ShowsTablesOverAllOfThem) {
  const std::string path = save_with_servers(folder.path(), 7, sample_tables(), 3);

  const Inspection inspection = inspect(path, {});
  const auto json = nlohmann::json::parse(inspect(path, {.json = true}).text);

  EXPECT_EQ(inspection.damage, "");
  EXPECT_TRUE(mentions(inspection.text, {"server-0002.h5", "table", "ids", "first, second", "wide", "none"}));
  EXPECT_EQ(json["server_parts"].size(), 3U);
  ASSERT_EQ(json["tables"].size(), 2U);
  const auto& table = json["tables"][0];
  EXPECT_EQ(table["name"], "ids");
  EXPECT_EQ(table["rows"], 100);
  EXPECT_EQ(table["width"], 10);
  EXPECT_EQ(table["slots"], nlohmann::json({"first", "second"}));
  EXPECT_EQ(table["min"], -0.0);
  EXPECT_EQ(table["max"], 999.0);
  EXPECT_EQ(table["non_finite"], 2);
}

TEST_F(InspectOfServerParts, ShowsOnePartAndAnExport) {
  const std::string path = save_with_servers(folder.path(), 7, sample_tables(), 3);
  export_model(path, folder.path("model.h5"), ignore);

  const auto part =
      nlohmann::json::parse(inspect(folder.path("step-00000007.parts/server-0000.h5"), {.json = true}).text);
  const auto model = nlohmann::json::parse(inspect(folder.path("model.h5"), {.json = true}).text);

  EXPECT_EQ(part["damage"], "");
  EXPECT_EQ(part["tables"][0]["rows"], 34);
  EXPECT_EQ(part["tensors"].size(), 0U);
  EXPECT_EQ(model["tables"][0]["rows"], 100);
  EXPECT_EQ(model["tables"][0]["slots"].size(), 0U);
  EXPECT_EQ(model["tensors"].size(), 4U);
}

TEST_F(InspectOfServerParts, ShowsTheOthersWhereOneIsMissing) {
  const std::string path = save_with_servers(folder.path(), 7, sample_tables(), 3);
  std::filesystem::remove(folder.path("step-00000007.parts/server-0000.h5"));

  const auto json = nlohmann::json::parse(inspect(path, {.json = true}).text);

  EXPECT_TRUE(mentions(json["damage"], {"server-0000.h5", "No such file"}));
  EXPECT_EQ(json["tables"][0]["rows"], 66);
}

}  // namespace flotilla
