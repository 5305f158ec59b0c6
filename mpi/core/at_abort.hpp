// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace flotilla::mpi {

/// While it lives, abort_job() calls `work` before it ends the job: what another library has under way on a
/// device is given up there. `work` runs on the thread that ends the job and must not throw; abort_job() does
/// not wait for it for ever.
class AtAbort {
 public:
  explicit AtAbort(std::function<void()> work);
  AtAbort(const AtAbort&) = delete;
  AtAbort& operator=(const AtAbort&) = delete;
  ~AtAbort();  ///< Waits where `work` is running.

  static void run_all();  ///< For abort_job(), once

 private:
  std::function<void()> work_;
  AtAbort* next_ = nullptr;
};

}  // namespace flotilla::mpi
