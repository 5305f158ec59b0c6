// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// trace::now_ns() in seconds.
double now_s();

/// Collective. The offset of this rank's trace::now_ns() from rank 0's; subtracting it aligns traces. Within
/// half of the shortest round trip between the two, which is a microsecond or two on a host.
std::int64_t clock_offset_ns(const Communicator& world);

}  // namespace flotilla::mpi
