// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/tensor.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// Samples by number. Memory does not depend on their count. Reading is const and safe from several threads
/// at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const Shape& sample_shape() const = 0;
  virtual std::string description() const = 0;  ///< "10000 images 28x28 of train-images.gz": a start-up line
  /// Writes sample i, ready for the network, and returns its label in 0 … classes − 1. `to` holds
  /// sample_shape().size() floats. `variation` selects a random augmentation: f(seed, epoch, sample).
  /// @throws UserError naming file and position.
  virtual std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const = 0;
};

/// Opens what the deck names; checks magic numbers, counts, sizes and labels.
/// @throws UserError naming file, position and remedy.
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed);

}  // namespace flotilla
