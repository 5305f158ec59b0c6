// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

// The fake GPU's memory, and the host's that is page-locked: the host's both. What is allocated holds NaNs
// until it is written, and what is given back holds them again, on a stream when its turn comes. Memory given
// back to a pool is handed out again, or not, as chance has it.
namespace flotilla::fake {

/// Whether all of it lies in one allocation on the fake GPU.
bool is_device_memory(const void* memory, std::size_t bytes);
bool is_page_locked(const void* memory, std::size_t bytes);
/// Allocations that are still there.
std::size_t allocations();

std::size_t free_device_bytes();
std::size_t total_device_bytes();
/// Null if there is no room.
void* allocate_on_device(std::size_t bytes, cudaStream_t stream);
bool free_on_device(void* memory, cudaStream_t stream);
/// To be called before a stream is destroyed: memory that was freed on it is not handed out any more.
void forget_returned(cudaStream_t stream);

void* allocate_page_locked(std::size_t bytes);
bool free_page_locked(void* memory);
bool lock_pages(void* memory, std::size_t bytes);
bool unlock_pages(void* memory);

/// A copy to or from the device as cudaMemcpyAsync does it. Page-locked memory is read and written when the
/// copy's turn comes, and ends the process if it was given back by then. Other memory of the host may be
/// copied at the call, after all that the stream holds, or late as well: CUDA promises none of it.
bool copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);

}  // namespace flotilla::fake
