// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>

// CUDA's streams and events without a GPU: device memory is the host's. A stream does nothing by itself:
// what was put on it happens when a thread waits for it, and of other streams then only what an event asks
// for. Work that was not ordered after what it needs therefore always runs too early.
namespace flotilla::test {

/// Held by every call that puts something on a stream or waits for one.
std::recursive_mutex& fake_cuda_mutex();

/// Puts work on a stream (a cudaStream_t; null is none).
void put_on_fake_stream(void* stream, std::function<void()> work);

/// A stream to compute on, as a device would have one.
void* make_fake_stream();
void destroy_fake_stream(void* stream);
void wait_for_fake_stream(void* stream);

}  // namespace flotilla::test
