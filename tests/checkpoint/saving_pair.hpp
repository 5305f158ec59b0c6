// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/checkpoint_writer.hpp"
#include "tests/checkpoint/samples.hpp"

namespace flotilla {

/// What worker `rank` holds for itself.
Snapshot own_snapshot(std::int64_t step, int rank);

/// Two workers of one process that save into one folder. Worker 0 saves the sample snapshot as what all
/// share, both their own.
class SavingPair {
 public:
  explicit SavingPair(const std::string& folder, std::int64_t keep = 2);
  void start(std::int64_t step, int rank, std::shared_ptr<ValueSource> own,
             std::vector<CheckpointPart> server_parts = {});
  void start(std::int64_t step, int rank, std::vector<CheckpointPart> server_parts = {});
  /// What became of the save that both started. Fails the test where they say different things.
  SaveReport finish();
  /// Both start the same save and finish it.
  SaveReport save(std::int64_t step, std::vector<CheckpointPart> server_parts = {});
  CheckpointWriter& writer(int rank) { return *writers_[static_cast<std::size_t>(rank)]; }

 private:
  /// Each gives a text and gets those of both.
  std::vector<std::string> exchange(std::size_t rank, const std::string& mine);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> texts_ = std::vector<std::string>(2);
  std::vector<std::string> all_;
  int arrived_ = 0;
  std::int64_t round_ = 0;
  std::vector<std::unique_ptr<CheckpointWriter>> writers_;
};

/// The parts of two servers, as they and worker 0 save them: both complete under temporary names first.
/// @throws UserError if one fails.
std::vector<CheckpointPart> save_server_parts(const CheckpointFolder& folder, std::int64_t step);

}  // namespace flotilla
