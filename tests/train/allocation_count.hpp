// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flotilla {

/// Calls of operator new by this thread so far. Programs that link allocation_count.cpp count them.
std::int64_t allocations_of_this_thread();

}  // namespace flotilla
