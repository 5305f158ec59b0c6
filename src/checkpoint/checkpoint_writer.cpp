// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/checkpoint_writer.hpp"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/state_json.hpp"
#include "src/checkpoint/write_checkpoint.hpp"
#include "src/files/folders.hpp"

namespace flotilla {

namespace {

/// State shared by the writing thread and its owner. The thread holds it too: it outlives an owner that is
/// destroyed while an exception is being thrown.
struct WriterState {
  WriterState(std::string path, std::int64_t how_many, SavingWorkers all)
      : folder(std::move(path)), keep(how_many), workers(std::move(all)) {}

  CheckpointFolder folder;
  std::int64_t keep;
  SavingWorkers workers;
  Save save;
  std::mutex mutex;
  std::condition_variable changed;
  bool pending = false;  ///< There is something to write: the save belongs to the thread
  bool read = true;      ///< The sources are not read any more
  bool closing = false;
  std::atomic<bool> given_up = false;
  std::atomic<std::int64_t> movements = 0;  ///< Pieces that the disk took
  std::vector<SaveReport> reports;
};

void write_values(NewFile& file, ValueSource& source, WriterState& writer) {
  for (std::size_t i = 0; i < source.tensors().size(); ++i) {
    if (writer.given_up) throw UserError("the program ended meanwhile");
    file.append(i, source.bytes(i));
    ++writer.movements;
  }
}

void sources_are_read(WriterState& writer) {
  {
    const std::lock_guard lock(writer.mutex);
    writer.read = true;
  }
  writer.changed.notify_all();
}

/// A file with values and without a name yet.
struct PendingFiles {
  std::optional<NewFile> checkpoint;
  std::optional<NewFile> part;
};

/// Writes what the sources give: from then on they may change.
void write_pending_files(WriterState& writer, PendingFiles& pending) {
  const Save& save = writer.save;
  writer.folder.make();  // the folder may have been removed since the start, and the save would be lost
  if (save.shared) {
    require_readable_names(save.shared->tensors());
    pending.checkpoint.emplace(writer.folder.path_of(save.state.step), save.shared->tensors());
    write_values(*pending.checkpoint, *save.shared, writer);
  }
  if (save.own) {
    writer.folder.make_parts(save.state.step);
    require_readable_names(save.own->tensors());
    pending.part.emplace(writer.folder.part_path(save.state.step, writer.workers.rank), save.own->tensors());
    write_values(*pending.part, *save.own, writer);
  }
}

/// The state in a worker's part: the strategy's numbers and the servers' parts are in the checkpoint.
CheckpointState state_of_part(const Save& save) {
  CheckpointState state = save.state;
  state.numbers = save.own_numbers;
  state.server_parts.clear();
  return state;
}

bool has_parts(const Save& save) {
  return save.own || !save.state.server_parts.empty();
}

/// Exchanges the workers' parts at a stage of a save. @returns the parts of all. @throws UserError
/// if one failed, or is at another stage or in another save: its part is not of this checkpoint.
/// @param stage how far the save has come: "complete", "named", "saved"
std::vector<CheckpointPart> gather_parts(const WriterState& writer, const std::string& stage,
                                         const CheckpointPart& part, const std::string& error) {
  const std::int64_t step = writer.save.state.step;
  const std::string mine = nlohmann::json{
      {"step", step},
      {"stage", stage},
      {"part", part},
      {"name", writer.workers.name},
      {"error", error}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::vector<CheckpointPart> parts;
  std::string failure;
  for (const std::string& text :
       writer.workers.exchange ? writer.workers.exchange(mine, step) : std::vector{mine}) {
    const nlohmann::json json = nlohmann::json::parse(text);
    auto theirs = json.at("error").get<std::string>();
    if (json.at("step") != step || json.at("stage") != stage)
      theirs = cat("it takes part in the save of step ", json.at("step").get<std::int64_t>(), " (",
                   json.at("stage").get<std::string>(), "), not in this one (", stage, ")");
    if (failure.empty() && !theirs.empty()) failure = cat(json.at("name").get<std::string>(), ": ", theirs);
    parts.push_back(json.at("part").get<CheckpointPart>());
  }
  if (!failure.empty()) throw UserError(failure);
  return parts;
}

/// Runs `work`. @returns why it failed; empty if it did not.
template <class Work>
std::string error_of(Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    return text_of(error);
  }
  return {};
}

/// The parts get their names together, once all are complete: a checkpoint of the same step, of a run that
/// was set back, may be there, and be good until then. @returns what the checkpoint is to say of them.
std::vector<CheckpointPart> complete_parts(WriterState& writer, NewFile* part, std::string error) {
  CheckpointPart mine;
  const CheckpointState state = state_of_part(writer.save);
  if (error.empty()) error = error_of([&] { mine = part->complete(&state, [&] { ++writer.movements; }); });
  if (writer.given_up) throw UserError(error);  // the others are not there any more
  gather_parts(writer, "complete", mine, error);
  return gather_parts(writer, "named", mine, error_of([&] { part->give_name(); }));
}

/// Completes the checkpoint itself, whose parts have their names, and removes older ones once it is there.
/// @returns its size; `warning` gets errors after that. @throws UserError if it was not written.
std::int64_t complete_checkpoint(WriterState& writer, NewFile& file, const CheckpointState& state,
                                 std::string& warning) {
  const std::string path = writer.folder.path_of(state.step);
  const auto moved = [&] { ++writer.movements; };
  if (has_parts(writer.save)) {
    sync_folder(folder_of(path));  // the parts' folder in it
    // Opening a folder makes a network file system ask for the names that other hosts have created in it.
    sync_folder(folder_of(writer.folder.part_path(state.step, 0)));
  }
  for (const auto* parts : {&state.parts, &state.server_parts}) {
    for (const CheckpointPart& part : *parts) {
      if (!writer.workers.share_folder && !is_there(part_file(path, part))) continue;  // on another host
      require_written(part_file(path, part), part);
      moved();
    }
  }
  const CheckpointPart written = file.complete(&state, moved);
  warning = error_of([&] { file.give_name(); });
  if (!file.has_name()) throw UserError(warning);
  require_written(path, written);
  // If it may not survive a crash of the machine, the older ones are still needed.
  if (warning.empty())
    warning = error_of([&] {
      if (!writer.save.best_steps.empty()) writer.folder.mark_best(writer.save.best_steps);
      writer.folder.saved(state.step, writer.keep, moved);
    });
  return written.bytes;
}

/// Fills bytes, which all wrote, and warning of `report`. @throws UserError if the checkpoint was not saved.
void complete(WriterState& writer, PendingFiles& pending, std::string error, SaveReport& report) {
  CheckpointState state = writer.save.state;
  if (writer.save.own) {
    state.parts = complete_parts(writer, pending.part ? &*pending.part : nullptr, std::move(error));
  } else if (!error.empty()) {
    throw UserError(error);
  }
  error = error_of([&] {
    if (pending.checkpoint)
      report.bytes = complete_checkpoint(writer, *pending.checkpoint, state, report.warning);
  });
  for (const auto* parts : {&state.parts, &state.server_parts})
    for (const CheckpointPart& part : *parts) report.bytes += part.bytes;
  // No worker has saved before the checkpoint is there.
  if (writer.save.own) gather_parts(writer, "saved", {}, error);
  if (!error.empty()) throw UserError(error);
}

double processor_time_s() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

SaveReport write(WriterState& writer) {
  const std::int64_t step = writer.save.state.step;
  SaveReport report{
      .step = step, .path = writer.folder.path_of(step), .bytes = 0, .write_s = 0.0, .error = {}};
  const auto begin = std::chrono::steady_clock::now();
  const double processor_begin_s = processor_time_s();
  PendingFiles pending;
  std::string error = error_of([&] { write_pending_files(writer, pending); });
  sources_are_read(writer);
  error = error_of([&] { complete(writer, pending, error, report); });
  if (!error.empty()) {
    report.error = cat("the checkpoint of step ", step, " was not saved: ", error);
    report.warning.clear();
    if (has_parts(writer.save) && writer.workers.rank == 0) writer.folder.remove_orphaned_parts(step);
  } else if (!report.warning.empty()) {
    report.warning = cat("the checkpoint of step ", step, " was saved, but then: ", report.warning);
  }
  report.write_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  report.processor_s = processor_time_s() - processor_begin_s;
  return report;
}

void serve(WriterState& writer) {
  std::unique_lock lock(writer.mutex);
  for (;;) {
    writer.changed.wait(lock, [&] { return writer.pending || writer.closing; });
    if (!writer.pending) return;
    lock.unlock();
    SaveReport report = write(writer);
    lock.lock();
    writer.reports.push_back(std::move(report));
    writer.pending = false;
    writer.changed.notify_all();
  }
}

/// Blocks all signals in this thread, and in those that it starts, for this scope, but for those of a crash:
/// where one is blocked the system ends the process without calling its handler (hdf5::Session).
class NoSignals {
 public:
  NoSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int crash : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigdelset(&blocked, crash);
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Starts a thread that takes no signals: requests to stop are the main thread's, and a write beyond a limit
/// (SIGXFSZ) is to fail instead of ending the program.
std::thread start_quietly(std::shared_ptr<WriterState> writer) {
  const NoSignals blocked;
  return std::thread([writer = std::move(writer)] { serve(*writer); });
}

}  // namespace

struct CheckpointWriter::Impl {
  std::shared_ptr<WriterState> writer;  // Shared with the thread, see WriterState
  std::thread thread;                   ///< From the first save on: most workers never save
  int exceptions = std::uncaught_exceptions();
};

CheckpointWriter::CheckpointWriter(std::string folder, std::int64_t keep, SavingWorkers workers)
    : impl_(std::make_unique<Impl>()) {
  require(keep >= 1, "at least one checkpoint must be kept, got ", keep);
  impl_->writer = std::make_shared<WriterState>(std::move(folder), keep, std::move(workers));
  if (impl_->writer->workers.rank != 0) return;
  impl_->writer->folder.make();
  impl_->writer->folder.remove_unfinished();
}

void CheckpointWriter::verified(std::int64_t step) {
  impl_->writer->folder.verified(step);
}

CheckpointWriter::~CheckpointWriter() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->writer->mutex);
    impl_->writer->closing = true;
  }
  impl_->writer->changed.notify_all();
  if (std::uncaught_exceptions() > impl_->exceptions) {
    // Does not wait for the disk, only for the reads of memory that is about to be destroyed.
    impl_->writer->given_up = true;
    wait_until_read();
    impl_->thread.detach();
  } else {
    impl_->thread.join();
  }
}

void CheckpointWriter::start(Save save) {
  finish();
  if (!impl_->thread.joinable()) impl_->thread = start_quietly(impl_->writer);
  {
    const std::lock_guard lock(impl_->writer->mutex);
    impl_->writer->save = std::move(save);
    impl_->writer->pending = true;
    impl_->writer->read = false;
  }
  impl_->writer->changed.notify_all();
}

void CheckpointWriter::wait_until_read() {
  std::unique_lock lock(impl_->writer->mutex);
  impl_->writer->changed.wait(lock, [&] { return impl_->writer->read; });
}

bool CheckpointWriter::wait_until_read_for(double seconds) {
  std::unique_lock lock(impl_->writer->mutex);
  return impl_->writer->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                         [&] { return impl_->writer->read; });
}

std::vector<SaveReport> CheckpointWriter::reports() {
  const std::lock_guard lock(impl_->writer->mutex);
  return std::exchange(impl_->writer->reports, {});
}

void CheckpointWriter::finish() {
  std::unique_lock lock(impl_->writer->mutex);
  impl_->writer->changed.wait(lock, [&] { return !impl_->writer->pending; });
}

bool CheckpointWriter::finish_for(double seconds) {
  std::unique_lock lock(impl_->writer->mutex);
  return impl_->writer->changed.wait_for(lock, std::chrono::duration<double>(seconds),
                                         [&] { return !impl_->writer->pending; });
}

std::int64_t CheckpointWriter::movements() const {
  return impl_->writer->movements.load();
}

}  // namespace flotilla
