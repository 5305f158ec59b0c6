// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/tensor.hpp"

namespace flotilla {

/// Communication of layers with other workers, for synchronised batch norm. Implemented in src/strategy, so
/// that models do not depend on MPI.
class WorkerExchange {
 public:
  virtual ~WorkerExchange() = default;
  virtual int workers() const = 0;
  /// Makes room for arrays of `count` values. To be called before all_gather() of so many, not in a step.
  virtual void reserve(std::size_t count) = 0;
  /// Collective. Every worker's `mine` in worker order (workers(), mine.size()), for work that is queued on
  /// the device before the next call.
  virtual DeviceSpan<const float> all_gather(DeviceSpan<const float> mine) = 0;
};

}  // namespace flotilla
