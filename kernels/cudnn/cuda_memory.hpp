// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/cudnn/handles.hpp"
#include "kernels/tensor.hpp"

namespace flotilla {

class WorkList;

/// One GPU's queue of work and the pool that all memory for it comes from. Storages may outlive this: they
/// keep both alive.
class CudaMemory {
 public:
  /// Makes `ordinal` the calling thread's GPU.
  explicit CudaMemory(int ordinal);

  int ordinal() const;
  /// All work handed out so far is in it.
  cudaStream_t stream() const;
  cudaStream_t bare_stream() const;  ///< The same, without what is kept back
  /// Keeps work back from now on; null: no longer. Of all copies of this.
  void keep_back(WorkList* list) const;
  /// `count` floats, zeroed, on 256 bytes. Zeroing is queued, and so is giving back: whoever uses the memory
  /// beside the stream orders himself after and before.
  /// @throws UserError if they do not fit.
  Storage allocate(std::size_t count) const;
  Storage scratch(std::size_t count) const;  ///< The same, not zeroed
  /// Page-locked memory of the host, zeroed.
  Storage pinned(std::size_t count) const;
  /// Locks memory of the host that is there already, until the result goes.
  Storage pin(std::span<float> host) const;
  std::int64_t allocated_bytes() const;  ///< On the GPU

 private:
  struct Queue;
  std::shared_ptr<Queue> queue_;  // shared with the storages
};

}  // namespace flotilla
