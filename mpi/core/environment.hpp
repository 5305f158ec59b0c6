// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <string>

namespace flotilla::mpi {

/// Initialises MPI with MPI_THREAD_MULTIPLE (required), errors returned instead of fatal; finalises it.
/// @throws LibraryError if the library does not grant it.
class Environment {
 public:
  Environment(int& argc, char**& argv);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();  ///< MPI_Finalize; nothing while an exception is being thrown.

  static std::string library_version();  ///< "Open MPI 4.1.4"
};

/// Ends the whole job at once with `exit_code`; never returns. MPI_Abort, then _exit from a second timer,
/// because MPI_Abort may block too (docs/troubleshooting.md). Safe from any thread.
[[noreturn]] void abort_job(int exit_code);

/// While an object of this class exists, abort_job() calls `work` before it ends the job, to abort operations
/// of another library on a device. `work` runs on the thread that ends the job and must not throw;
/// abort_job() waits for it for a limited time.
class AtAbort {
 public:
  explicit AtAbort(std::function<void()> work);
  AtAbort(const AtAbort&) = delete;
  AtAbort& operator=(const AtAbort&) = delete;
  ~AtAbort();  ///< Waits if `work` is running.

  static void run_all();  ///< For abort_job(), once

 private:
  std::function<void()> work_;
  AtAbort* next_ = nullptr;
};

/// From now on this process ends by _exit(exit_code) after `seconds`, whatever it is blocked in. Uses
/// SIGALRM: needs neither memory nor a thread. Safe from any thread; the first call counts.
void leave_within(unsigned seconds, int exit_code) noexcept;

/// A deleter that leaks the object while an exception is being thrown, because a communication thread may be
/// using it.
template <class T>
struct LeaveWhileThrowing {
  int exceptions = std::uncaught_exceptions();
  void operator()(T* object) const {
    if (std::uncaught_exceptions() <= exceptions) delete object;
  }
};

}  // namespace flotilla::mpi
