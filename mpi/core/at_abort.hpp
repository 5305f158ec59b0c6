// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace flotilla::mpi {

/// While it exists, abort_job() calls `work` before it ends the job, to abort operations of another library
/// on a device. `work` runs on the thread that ends the job and must not throw; abort_job() waits for it for
/// a limited time.
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

}  // namespace flotilla::mpi
