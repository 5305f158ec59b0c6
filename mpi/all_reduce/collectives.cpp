// SPDX-License-Identifier: Apache-2.0
#include "mpi/all_reduce/collectives.hpp"

namespace flotilla::mpi {

void all_reduce_now(Collectives& collectives, DeviceSpan<float> data, CallSite at) {
  collectives.ready(data);
  collectives.all_reduce(data, at);
  collectives.settle();
}

}  // namespace flotilla::mpi
