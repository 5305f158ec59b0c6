// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace flotilla {

/// Communication of layers with other workers, for synchronised batch norm. Implemented in src/strategy, so
/// that models do not depend on MPI.
class WorkerExchange {
 public:
  virtual ~WorkerExchange() = default;
  virtual int workers() const = 0;
  /// Collective. all = every worker's `mine` in worker order, workers() × mine.size() values.
  virtual void all_gather(std::span<const double> mine, std::span<double> all) = 0;
};

}  // namespace flotilla
