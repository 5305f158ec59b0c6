// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/error.hpp"
#include "kernels/tensor.hpp"
#include "src/config/config.hpp"

namespace flotilla {

/// One sample cannot be had, others can: its file is missing or damaged.
struct BadSample : UserError {
  using UserError::UserError;
};

/// Samples by number. Memory does not depend on their count, the names of files apart. Reading is const and
/// safe from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  virtual const Shape& sample_shape() const = 0;
  virtual std::string description() const = 0;  ///< "10000 images 28x28 of train-images.gz": a start-up line
  /// Writes sample i, ready for the network, and returns its label in 0 … classes − 1. `to` holds
  /// sample_shape().size() floats. `variation` selects a random augmentation: f(seed, epoch, sample).
  /// @throws UserError naming file and position; a BadSample if only this sample is bad.
  virtual std::int32_t read(std::int64_t i, std::uint64_t variation, std::span<float> to) const = 0;
};

/// What a data set is opened for.
struct DatasetUse {
  bool training = true;            ///< Augmented, and may hold an image twice
  std::int64_t ranks_on_host = 1;  ///< That keep what is cached each for itself; 0: nothing is read twice
};

/// Opens what the deck names; checks magic numbers, counts, sizes, labels and whether files are there.
/// @throws UserError naming file, position and remedy; all mistakes of a list at once.
std::unique_ptr<Dataset> open_dataset(const DataConfig& data, const DataSourceConfig& source,
                                      std::int64_t classes, std::uint64_t seed, const DatasetUse& use = {});

}  // namespace flotilla
