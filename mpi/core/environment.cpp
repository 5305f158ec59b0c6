// SPDX-License-Identifier: Apache-2.0
#include "mpi/core/environment.hpp"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/error.hpp"
#include "mpi/core/communicator.hpp"
#include "mpi/core/native.hpp"

namespace flotilla::mpi {

namespace {

std::mutex mutex;
AtAbort* newest = nullptr;  // under mutex

std::atomic<int> code_at_alarm{0};
std::atomic_flag armed = ATOMIC_FLAG_INIT;

extern "C" void leave_now(int) {
  _exit(code_at_alarm.load());
}

constexpr unsigned patience_with_abort_s = 5;

/// MPICH's launcher drops what it has not read of the ranks' last lines when one of them aborts.
void let_launcher_read() {
  if (std::getenv("PMI_RANK") != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(300));
}

const char* level_name(int level) {
  switch (level) {
    case MPI_THREAD_SINGLE: return "MPI_THREAD_SINGLE";
    case MPI_THREAD_FUNNELED: return "MPI_THREAD_FUNNELED";
    case MPI_THREAD_SERIALIZED: return "MPI_THREAD_SERIALIZED";
    default: return "an unknown thread level";
  }
}

/// Ends this process with a sentence where MPI crashes. Only calls that are safe in a signal handler.
void explain_crash(int) {
  constexpr std::string_view text =
      "flotilla: MPI crashed in the first message between ranks. Open MPI does so where ranks of a host have "
      "equal process ids, as in containers of their own (docker run --pid=host gives them one set), and "
      "where hosts of one name share /dev/shm (give each host a name of its own); mpirun --mca btl tcp,self "
      "avoids both\n";
  constexpr int user_error = 2;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  _exit(user_error);
}

/// Lets each rank exchange a first message with others, while a crash can still be explained.
void exchange_first_messages() {
  struct sigaction explained {};
  struct sigaction before {};
  explained.sa_handler = explain_crash;
  sigaction(SIGSEGV, &explained, &before);
  check(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
  sigaction(SIGSEGV, &before, nullptr);
}

}  // namespace

AtAbort::AtAbort(std::function<void()> work) : work_(std::move(work)) {
  const std::lock_guard lock(mutex);
  next_ = std::exchange(newest, this);
}

AtAbort::~AtAbort() {
  const std::lock_guard lock(mutex);
  AtAbort** link = &newest;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

void AtAbort::run_all() {
  const std::lock_guard lock(mutex);
  for (AtAbort* entry = newest; entry != nullptr; entry = entry->next_) entry->work_();
}

void leave_within(unsigned seconds, int exit_code) noexcept {
  if (armed.test_and_set()) return;
  code_at_alarm = exit_code;
  struct sigaction action = {};
  action.sa_handler = leave_now;
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  // None of these can fail with these arguments; if one did, there would be no way left to report it.
  sigaction(SIGALRM, &action, nullptr);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  alarm(seconds);
}

void check(int code, const char* call, std::source_location at) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) {
    throw LibraryError(call, cat("error code ", code), at);
  }
  throw LibraryError(call, std::string(text.data(), static_cast<std::size_t>(length)), at);
}

Environment::Environment(int& argc, char**& argv) {
  int granted = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &granted), "MPI_Init_thread");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (granted < MPI_THREAD_MULTIPLE) {
    throw LibraryError("MPI_Init_thread", cat("needs MPI_THREAD_MULTIPLE, ", library_version(), " grants ",
                                              level_name(granted), "; use an MPI built with thread support"));
  }
  exchange_first_messages();
}

Environment::~Environment() {
  if (std::uncaught_exceptions() > 0) return;  // MPI_Finalize would wait for ranks that are elsewhere
  MPI_Finalize();
}

std::string Environment::library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
  int length = 0;
  check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
  std::string version(text.data(), static_cast<std::size_t>(length));
  // "Open MPI v4.1.4, package: …"; "MPICH Version:\t4.0.2\n…", or with spaces
  version.erase(std::min(version.find_first_of(",\n"), version.size()));
  for (const std::string_view word : {" v", " Version:"}) {
    const std::size_t at = version.find(word);
    if (at == std::string::npos) continue;
    const std::size_t number = std::min(version.find_first_not_of(" \t", at + word.size()), version.size());
    version.replace(at, number - at, " ");
  }
  return version;
}

void abort_job(int exit_code) {
  static std::atomic_flag aborting = ATOMIC_FLAG_INIT;
  leave_within(patience_with_abort_s, exit_code);
  if (aborting.test_and_set()) {
    while (true) pause();  // another thread ends the job already
  }
  AtAbort::run_all();
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  if (initialised != 0 && finalised == 0) {
    let_launcher_read();
    // A single rank leaves without MPI_Abort, which prints a banner about the end of other ranks.
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  _exit(exit_code);
}

}  // namespace flotilla::mpi
