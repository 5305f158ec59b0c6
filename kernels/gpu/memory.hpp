// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/gpu/handles.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

class WorkQueue;

/// One GPU's stream and the pool that its memory is allocated from. Storages may outlive this: they keep both
/// alive.
class CudaMemory {
 public:
  /// Makes `ordinal` the calling thread's GPU.
  explicit CudaMemory(int ordinal);

  int ordinal() const;
  /// The stream that computes: submits what is kept back, so that all work so far is in it.
  cudaStream_t stream() const;
  cudaStream_t bare_stream() const;  ///< The stream that computes; work that is kept back is not submitted
  /// From now on, work of all copies of this object is collected in `queue`; null: it is no longer collected.
  void keep_back(WorkQueue* queue) const;
  /// `count` floats, zeroed, aligned to 256 bytes. Zeroing and freeing are queued on the stream: a use of the
  /// memory on another stream must be ordered after the zeroing and before the freeing.
  /// @throws UserError if they do not fit.
  Storage allocate(std::size_t count) const;
  Storage scratch(std::size_t count) const;  ///< `count` floats, not zeroed, aligned to 256 bytes
  /// Page-locked memory of the host, zeroed.
  Storage pinned(std::size_t count) const;
  /// Page-locks existing host memory for as long as the result lives.
  Storage pin(std::span<float> host) const;
  std::int64_t allocated_bytes() const;  ///< Bytes allocated on the GPU

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;  // shared with the storages
};

}  // namespace flotilla
