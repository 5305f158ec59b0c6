// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "kernels/tensor.hpp"

namespace flotilla {

/// Hands out zeroed host memory on 64 bytes and counts what is alive. Its storages may outlive it.
class HostMemory {
 public:
  Storage allocate(std::size_t count) const;  ///< `count` floats. @throws std::bad_alloc
  std::int64_t allocated_bytes() const { return *bytes_; }

 private:
  // Shared with the storages, which may be released after the device.
  std::shared_ptr<std::atomic<std::int64_t>> bytes_ = std::make_shared<std::atomic<std::int64_t>>(0);
};

}  // namespace flotilla
