// SPDX-License-Identifier: Apache-2.0
#include "src/train/saving_workers.hpp"

#include <memory>
#include <string>

namespace flotilla {

SavingWorkers saving_workers(const mpi::Communicator& workers) {
  if (workers.size() == 1) return {};
  // Shared because a function is copied; and a thread that is left alone may hold the last copy.
  auto own = std::make_shared<const mpi::Communicator>(workers.collective_clone());
  return {.rank = workers.rank(), .exchange = [own](const std::string& mine, std::int64_t step) noexcept {
            // One that fails here leaves this worker a message behind or ahead of the others for good: that
            // is no failed save, it ends the job (FailureHandler::end_job_at_terminate).
            own->patient_barrier(step);  // some write longer than others; training wants the processor
            return own->all_gather(mine, step);
          }};
}

}  // namespace flotilla
