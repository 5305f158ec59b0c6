// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "kernels/gpu/memory.hpp"

namespace flotilla {

/// Asynchronous copies from the host: the caller's memory may be reused when a call returns, except for
/// batches in page-locked memory. For the computing thread only.
class CudaUploads {
 public:
  explicit CudaUploads(CudaMemory memory);
  CudaUploads(const CudaUploads&) = delete;
  CudaUploads& operator=(const CudaUploads&) = delete;
  ~CudaUploads();  ///< Waits for copies from host memory; not while an exception is being thrown.

  /// Small arrays are copied through page-locked memory; larger ones wait for all work queued so far.
  void copy(std::span<const float> host, DeviceSpan<float> to);
  /// A batch on the device, valid until the next call but one; copied while the device computes. Page-locked
  /// memory is copied in place and must not change until finish().
  template <class T>
  DeviceSpan<const T> batch(std::span<const T> host) {
    return {static_cast<const T*>(copied(std::as_bytes(host))), host.size()};
  }
  void finish();  ///< Returns when no host memory is read any more.

 private:
  struct Small {
    Storage pinned;
    Event copied;
  };
  struct Batch {
    Storage pinned;
    Storage device;
    Event copied;
    Event read;  // by all work that reads it
  };

  const void* copied(std::span<const std::byte> host);
  const void* page_locked(Batch& slot, std::span<const std::byte> host);

  CudaMemory memory_;
  Stream beside_;
  std::array<Small, 8> small_;
  std::array<Batch, 2> batches_;
  std::size_t next_small_ = 0;
  std::size_t next_batch_ = 0;
};

}  // namespace flotilla
