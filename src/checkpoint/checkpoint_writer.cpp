// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/write_file.hpp"

namespace flotilla {

namespace {

/// What the writing thread and its owner share. The thread holds it too: it outlives an owner that is
/// destroyed while an exception is being thrown.
struct Desk {
  Desk(std::string path, std::int64_t how_many) : folder(std::move(path)), keep(how_many) {}

  CheckpointFolder folder;
  std::int64_t keep;
  Snapshot snapshot;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void(Snapshot&)> prepare;
  bool pending = false;   ///< The snapshot is filled and not yet written: it belongs to the thread
  bool prepared = false;  ///< … and nothing of the owner's is needed any more
  bool closing = false;
  std::vector<SaveReport> reports;
};

SaveReport save(Desk& desk) {
  SaveReport report;
  report.step = desk.snapshot.state.step;
  report.path = desk.folder.path_of(report.step);
  const auto begin = std::chrono::steady_clock::now();
  try {
    if (desk.prepare) desk.prepare(desk.snapshot);
    {
      const std::lock_guard lock(desk.mutex);
      desk.prepared = true;
    }
    desk.changed.notify_all();
    desk.folder.make();  // somebody may have removed it, and with it the work of hours
    report.bytes = write_snapshot(report.path, desk.snapshot);
    desk.folder.saved(report.step, desk.keep);
  } catch (const std::exception& error) {
    report.error = cat("the checkpoint of step ", report.step, " was not saved: ", error.what());
  }
  report.write_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

void serve(Desk& desk) {
  std::unique_lock lock(desk.mutex);
  for (;;) {
    desk.changed.wait(lock, [&] { return desk.pending || desk.closing; });
    if (!desk.pending) return;
    lock.unlock();
    SaveReport report = save(desk);
    lock.lock();
    desk.reports.push_back(std::move(report));
    desk.pending = false;
    desk.prepared = false;
    desk.changed.notify_all();
  }
}

/// Starts a thread that takes no signals: requests to stop are the main thread's, and a write beyond a limit
/// (SIGXFSZ) is to fail instead of ending the program.
std::thread start_quietly(std::shared_ptr<Desk> desk) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([desk = std::move(desk)] { serve(*desk); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

struct CheckpointWriter::Impl {
  std::shared_ptr<Desk> desk;  // Shared with the thread, see Desk
  std::thread thread;
  int exceptions = std::uncaught_exceptions();
};

CheckpointWriter::CheckpointWriter(std::string folder, std::int64_t keep) : impl_(std::make_unique<Impl>()) {
  require(keep >= 1, "at least one checkpoint must be kept, got ", keep);
  impl_->desk = std::make_shared<Desk>(std::move(folder), keep);
  impl_->desk->folder.remove_unfinished();
  impl_->thread = start_quietly(impl_->desk);
}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(impl_->desk->mutex);
    impl_->desk->closing = true;
  }
  impl_->desk->changed.notify_all();
  if (std::uncaught_exceptions() > impl_->exceptions) {
    // Not for the disk, but for what still uses things that are about to be destroyed.
    std::unique_lock lock(impl_->desk->mutex);
    impl_->desk->changed.wait(lock, [&] { return !impl_->desk->pending || impl_->desk->prepared; });
    impl_->thread.detach();
  } else {
    impl_->thread.join();
  }
}

Snapshot& CheckpointWriter::begin() {
  finish();
  return impl_->desk->snapshot;
}

void CheckpointWriter::commit(std::function<void(Snapshot&)> prepare) {
  {
    const std::lock_guard lock(impl_->desk->mutex);
    require(!impl_->desk->pending, "commit() without begin()");
    impl_->desk->prepare = std::move(prepare);
    impl_->desk->pending = true;
  }
  impl_->desk->changed.notify_all();
}

std::vector<SaveReport> CheckpointWriter::reports() {
  const std::lock_guard lock(impl_->desk->mutex);
  return std::exchange(impl_->desk->reports, {});
}

void CheckpointWriter::finish() {
  std::unique_lock lock(impl_->desk->mutex);
  impl_->desk->changed.wait(lock, [&] { return !impl_->desk->pending; });
}

std::string CheckpointWriter::file_name(std::int64_t step) {
  const std::string digits = std::to_string(step);
  return cat("step-", std::string(digits.size() < 8 ? 8 - digits.size() : 0, '0'), digits, ".h5");
}

}  // namespace flotilla
