// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/embedding_bags.hpp"

namespace flotilla {

/// Bags of ids, written one after another; keeps its memory when it is emptied.
class BagBuffer {
 public:
  /// Allocates one id for each of rows × slots bags; grows for larger bags.
  /// @param weighted each id has a value
  BagBuffer(std::int64_t rows, std::int64_t slots, bool weighted);

  void clear();
  void add(std::uint64_t id) { ids_.push_back(id); }
  void add(std::uint64_t id, float value) {
    ids_.push_back(id);
    values_.push_back(value);
  }
  void end_bag() { ends_.push_back(static_cast<std::int32_t>(ids_.size())); }
  void append(const BagBuffer& other);
  Bags bags() const;  ///< Valid until something is added.
  std::int64_t bytes() const;

 private:
  std::vector<std::uint64_t> ids_;
  std::vector<float> values_;
  std::vector<std::int32_t> ends_;
};

/// Reads click data sample by sample, on one thread, in any order; consecutive samples are cheap.
class BagReader {
 public:
  virtual ~BagReader() = default;
  /// Writes the dense features of sample i, adds its bags, one for each slot, and returns its label.
  /// @throws UserError naming file and line; some of the bags may then have been added.
  virtual std::int32_t read(std::int64_t i, std::span<float> dense, BagBuffer& bags) = 0;
};

}  // namespace flotilla
