// SPDX-License-Identifier: Apache-2.0
#include "src/train/run_folder.hpp"

#include <filesystem>
#include <system_error>

#include "kernels/error.hpp"
#include "src/files/folders.hpp"
#include "src/job/failure.hpp"

namespace flotilla {

SavingWorkers saving_workers(const mpi::Communicator& workers, const mpi::Place& place) {
  if (workers.size() == 1) return {};
  // Shared because a function is copied; and a thread that is left alone may hold the last copy.
  auto own = std::make_shared<const mpi::Communicator>(workers.collective_clone());
  return {.rank = workers.rank(),
          .name = cat("rank ", place.rank, " on ", place.host),
          .exchange = [own](const std::string& mine, std::int64_t step) noexcept {
            // A call that fails here leaves this worker out of step with the others for good, so it ends the
            // job instead of a save (FailureHandler::end_job_at_terminate).
            own->patient_barrier(step);  // some write longer than others; training needs the processor
            return own->all_gather(mine, step);
          }};
}

std::string rank_file(const std::string& folder, int rank, const char* ending) {
  std::string number = std::to_string(rank);
  number.insert(0, number.size() < 4 ? 4 - number.size() : 0, '0');
  return cat(folder, "/rank-", number, ending);
}

RunFolder::RunFolder(const Config& config, const mpi::Communicator& workers, mpi::Watchdog& watchdog)
    : config_(config), workers_(workers), watchdog_(watchdog) {
  agree(workers_, [&] {
    const mpi::CpuProgressScope working(watchdog_, "locking the run's folder");
    if (workers_.is_root() && is_there(config_.run.output))
      lock_.emplace(config_.run.output, RunLock::patience_with_ending_s);
  });
}

void RunFolder::open(const mpi::Place& place, const LoadedCheckpoint* resumed, const std::string& deck) {
  std::error_code ignored;  // One of them need not be there.
  keeps_deck_ =
      workers_.is_root() && std::filesystem::equivalent(deck, config_.run.output + "/deck.toml", ignored);
  const SavingWorkers saving = saving_workers(workers_, place);
  agree(workers_, [&] {
    if (!workers_.is_root()) return;
    if (!lock_) {
      make_output_folder(config_.run.output);
      lock_.emplace(config_.run.output, RunLock::patience_with_ending_s);
    }
    open_files(place.rank, resumed, saving);
  });
  agree(workers_, [&] {
    if (!workers_.is_root()) open_files(place.rank, resumed, saving);
  });
}

LogLines log_lines(RankLogs rank_logs, int workers) {
  constexpr int max_logs = 64;
  switch (rank_logs) {
    case RankLogs::all: return LogLines::all;
    case RankLogs::own: return LogLines::own;
    case RankLogs::none: return LogLines::none;
    case RankLogs::automatic: break;
  }
  return workers <= max_logs ? LogLines::all : LogLines::own;
}

/// Whether the checkpoint lies in this folder and was verified with the parts of all its workers.
bool RunFolder::verified_in(const std::string& folder, const LoadedCheckpoint& checkpoint) const {
  std::error_code error;
  const std::size_t parts = checkpoint.state.parts.size();
  return checkpoint.good_parts && (parts == 0 || parts == static_cast<std::size_t>(workers_.size())) &&
         std::filesystem::equivalent(std::filesystem::path(checkpoint.path).parent_path(), folder, error);
}

void RunFolder::open_files(int job_rank, const LoadedCheckpoint* resumed, const SavingWorkers& saving) {
  const mpi::CpuProgressScope working(watchdog_, "opening the run's folder");
  const std::string& folder = config_.run.output;
  const std::string checkpoints = folder + "/checkpoints";
  reporter_ = std::make_unique<Reporter>(
      ReporterOptions{.folder = folder,
                      .rank = workers_.rank(),
                      .log_lines = log_lines(config_.run.files.rank_logs, workers_.size()),
                      .job_rank = job_rank,
                      .append = resumed != nullptr,
                      .resumed_step = resumed == nullptr ? 0 : resumed->state.step,
                      .resolved_deck = keeps_deck_ ? "" : config_.resolved_text});
  shared_writer_ = std::make_unique<CheckpointWriter>(checkpoints, config_.checkpoint.keep, saving);
  if (resumed != nullptr && verified_in(checkpoints, *resumed)) shared_writer_->verified(resumed->state.step);
  if (config_.checkpoint.per_rank)
    own_writer_ = std::make_unique<CheckpointWriter>(rank_file(checkpoints, workers_.rank(), ""),
                                                     config_.checkpoint.keep);
}

}  // namespace flotilla
