// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/config/data_config.hpp"

namespace flotilla {

class BagBuffer;

/// Reads click data sample by sample, on one thread, in any order; consecutive samples are cheap.
class BagReader {
 public:
  virtual ~BagReader() = default;
  /// Writes the dense features of sample i, adds its bags, one for each slot, and returns its label.
  /// @throws UserError naming file and line; some of the bags may then have been added.
  virtual std::int32_t read(std::int64_t i, std::span<float> dense, BagBuffer& bags) = 0;
};

/// Bags of ids that samples may have: click data.
class BagSource {
 public:
  virtual ~BagSource() = default;
  /// Bags of ids that a sample has, one for each slot. 0: none; else the samples are read by a bag_reader(),
  /// and their shape, which may be of size 0, is that of their dense features.
  virtual std::int64_t slots() const { return 0; }
  virtual bool weighted() const { return false; }  ///< Each id has a value.
  /// Cuts the data into a share for each worker, by files or bytes. @returns the first sample of each, and
  /// the end of the last.
  virtual std::vector<std::int64_t> deal(ShardBy how, std::int64_t workers) const;
  /// One for each thread; the data set must outlive it.
  virtual std::unique_ptr<BagReader> bag_reader() const;
};

}  // namespace flotilla
