// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace flotilla::test {

/// Calls of operator new so far, without those that oneDNN makes inside (dnnl_sgemm makes one small object a
/// call). A program that links allocation_count gets the operators that count.
std::int64_t allocations_of_this_thread();
std::int64_t allocations_of_all_threads();

}  // namespace flotilla::test
