// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

void all_reduce_now(Collectives& collectives, DeviceSpan<float> data) {
  collectives.ready(data);
  collectives.all_reduce(data);
  collectives.settle();
}

}  // namespace flotilla::mpi
