// SPDX-License-Identifier: Apache-2.0
#include "src/train/saving_workers.hpp"

#include <memory>
#include <string>

namespace flotilla {

SavingWorkers saving_workers(const mpi::Communicator& workers) {
  if (workers.size() == 1) return {};
  // Shared because a function is copied; and a thread that is left alone may hold the last copy.
  auto own = std::make_shared<const mpi::Communicator>(workers.collective_clone());
  return {.rank = workers.rank(), .exchange = [own](const std::string& mine) {
            own->patient_barrier();  // some write longer than others; training wants the processor
            return own->all_gather(mine);
          }};
}

}  // namespace flotilla
