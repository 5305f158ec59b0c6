// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

namespace flotilla {

/// Takes SIGUSR1, SIGTERM, SIGINT, SIGHUP (the terminal was closed) and SIGXCPU (a limit of processor time)
/// as requests for an orderly stop, on a thread of its own: they are blocked in the calling thread and in
/// every thread that is started from now on, so make it before MPI and the device. A second SIGINT ends the
/// process at once; where one of the last three is ignored at the start it stays so. A signal handler is not
/// used, because dnnl_sgemm (2.6, AVX-512) uses the stack in a way that a signal's frame destroys, which ends
/// in a corrupt heap (seen: 2 of 21 runs that were stopped while they computed).
class StopListener {
 public:
  StopListener();
  StopListener(const StopListener&) = delete;
  StopListener& operator=(const StopListener&) = delete;
  ~StopListener();

 private:
  int signals_ = -1;  ///< signalfd
  int wake_ = -1;     ///< eventfd: the listener is no longer needed
  std::jthread thread_;
};

/// The signal that asked for a stop: 0 if none did.
int stop_signal();

}  // namespace flotilla
