// SPDX-License-Identifier: Apache-2.0
#include "src/train/checkpoint_room.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "kernels/error.hpp"
#include "kernels/machine/available_memory.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/job/failure.hpp"
#include "src/observe/console.hpp"
#include "src/train/model_state.hpp"

namespace flotilla {

namespace {

namespace fs = std::filesystem;

/// The size of a checkpoint with the parts of all workers, and the models of checkpoint.per_rank.
std::int64_t bytes_of_checkpoint(RunParts& run) {
  const std::vector<CheckpointTensor> tensors =
      checkpoint_tensors(*run.model.network, run.sync.strategy->live());
  std::int64_t values = 0;
  for (const CheckpointTensor& tensor : tensors) values += tensor.shape.size();
  const std::int64_t workers = run.machine.workers.size();
  const bool parts = run.config.local_sgd() != nullptr && workers > 1;
  const std::int64_t files = 1 + (parts ? workers : 0) + (run.config.checkpoint.per_rank ? workers : 0);
  return values * files * static_cast<std::int64_t>(sizeof(float));
}

/// The largest number of checkpoints that exist at the same time, while one is written.
std::int64_t max_at_once(const CheckpointConfig& checkpoint) {
  const bool best = checkpoint.best != BestMetric::none;
  const bool several = checkpoint.every > 0 || checkpoint.every_s > 0.0 || best;
  return several ? checkpoint.keep + 1 + (best ? checkpoint.keep_best : 0) : 1;
}

std::int64_t checkpoints_there(const std::string& output) {
  std::error_code error;
  const std::string folder = output + "/checkpoints";
  return fs::is_directory(folder, error) ? static_cast<std::int64_t>(checkpoints_in(folder).size()) : 0;
}

/// The folder, or the nearest one above it that is there.
std::string nearest_folder(const std::string& folder) {
  fs::path there = folder;
  std::error_code error;
  while (!fs::is_directory(there, error) && there != there.parent_path()) there = there.parent_path();
  return there.string();
}

}  // namespace

std::string checkpoint_room(RunParts& run, std::vector<std::string>& warnings) {
  std::string line;
  agree(run.machine.workers, [&] {
    const std::int64_t each = bytes_of_checkpoint(run);
    if (!run.machine.workers.is_root()) return;
    const std::string& output = run.config.run.output;
    const std::int64_t at_once = max_at_once(run.config.checkpoint);
    const std::int64_t free = free_bytes(nearest_folder(output)).value_or(-1);
    line = cat("checkpoints  ", bytes_text(each), " each, up to ", at_once, " at a time",
               run.sync.embeddings ? ", rows of embeddings not counted" : "", "; ",
               free < 0 ? "it is not known how much is" : cat(bytes_text(free), " are"), " free in ", output);
    if (free < 0) return;
    if (free < each)
      throw UserError(cat("No space left on device for a checkpoint in run.output ", output, ": one takes ",
                          bytes_text(each), ", and ", bytes_text(free),
                          " are free; make room, or name a folder on another disk"));
    const std::int64_t more = std::max<std::int64_t>(1, at_once - checkpoints_there(output));
    if (free / more < each)
      warnings.push_back(cat("the ", more, " checkpoints of ", bytes_text(each),
                             " that checkpoint.keep = ", run.config.checkpoint.keep, " lets lie in ", output,
                             " do not fit into the ", bytes_text(free),
                             " that are free there: make room, or "
                             "keep fewer"));
  });
  return line;
}

}  // namespace flotilla
