// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/saving_pair.hpp"

#include <utility>

#include "src/checkpoint/row_file.hpp"
#include "tests/checkpoint/row_samples.hpp"

namespace flotilla {

Snapshot own_snapshot(std::int64_t step, int rank) {
  Snapshot snapshot = sample_snapshot(step);
  snapshot.tensors.clear();
  snapshot.values.clear();
  add_tensor(snapshot, "parameters/layers.0.weight", {3, 5}, static_cast<float>(1000 * rank));
  return snapshot;
}

SavingPair::SavingPair(const std::string& folder, std::int64_t keep) {
  for (int rank = 0; rank < 2; ++rank)
    writers_.push_back(std::make_unique<CheckpointWriter>(
        folder, keep,
        SavingWorkers{.rank = rank,
                      .name = "rank " + std::to_string(rank) + " on a",
                      .exchange = [this, rank](const std::string& mine, std::int64_t) {
                        return exchange(static_cast<std::size_t>(rank), mine);
                      }}));
}

void SavingPair::start(std::int64_t step, int rank, std::shared_ptr<ValueSource> own,
                       std::vector<CheckpointPart> server_parts) {
  Save save = save_of(sample_snapshot(step));
  save.state.server_parts = std::move(server_parts);
  if (rank > 0) save.shared = nullptr;
  save.own = std::move(own);
  writer(rank).start(std::move(save));
}

void SavingPair::start(std::int64_t step, int rank, std::vector<CheckpointPart> server_parts) {
  start(step, rank, std::make_shared<SnapshotSource>(own_snapshot(step, rank)), std::move(server_parts));
}

SaveReport SavingPair::finish() {
  for (const auto& writer : writers_) writer->finish();
  const SaveReport report = writer(0).reports().at(0);
  EXPECT_EQ(writer(1).reports().at(0).error, report.error) << "all learn what became of it";
  return report;
}

SaveReport SavingPair::save(std::int64_t step, std::vector<CheckpointPart> server_parts) {
  start(step, 0, server_parts);
  start(step, 1);
  return finish();
}

std::vector<std::string> SavingPair::exchange(std::size_t rank, const std::string& mine) {
  std::unique_lock lock(mutex_);
  texts_[rank] = mine;
  const std::int64_t round = round_;
  if (++arrived_ == 2) {
    all_ = texts_;
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return round_ != round; });
  return all_;
}

std::vector<CheckpointPart> save_server_parts(const CheckpointFolder& folder, std::int64_t step) {
  const CheckpointState state = sample_snapshot(step).state;
  folder.make_parts(step);
  std::vector<std::unique_ptr<RowFileWriter>> files;
  std::vector<CheckpointPart> parts;
  for (int server = 0; server < 2; ++server) {
    const Rows rows = share_of(sample_rows({.name = "ids", .width = 2, .slots = {"first"}, .rows = 10}, 3),
                               static_cast<std::size_t>(server), 2);
    files.push_back(std::make_unique<RowFileWriter>(folder.server_part_path(step, server),
                                                    std::vector<RowTable>{rows.table}));
    const std::vector<std::span<const float>> slots(rows.slots.begin(), rows.slots.end());
    files.back()->write(0, {.keys = rows.keys, .values = rows.values, .slots = slots});
    parts.push_back(files.back()->complete(state));
  }
  for (const auto& file : files) file->give_name();
  return parts;
}

}  // namespace flotilla
