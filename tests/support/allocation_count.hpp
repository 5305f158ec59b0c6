// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

namespace flotilla::test {

/// Calls of operator new so far, without those that oneDNN makes inside (dnnl_sgemm makes one small object a
/// call). A program that links allocation_count gets the operators that count.
std::int64_t allocations_of_this_thread();
std::int64_t allocations_of_all_threads();

std::int64_t bytes_held();  ///< Bytes that operator new has given out and not got back, on all threads

/// The most bytes that operator new had given out and not got back at any time during `work`, on any thread,
/// above those before it. Unlike the resident memory, it has none of the pages of code and of files, which
/// differ from run to run by some hundred kilobytes.
std::int64_t most_bytes_over(const std::function<void()>& work);

}  // namespace flotilla::test
