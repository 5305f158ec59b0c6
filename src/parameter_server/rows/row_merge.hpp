// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace flotilla {

/// Merges the gradients of one request by row: those of one row are added in their order. Memory is reused
/// from request to request.
class RowMerge {
 public:
  void begin(std::size_t width,
             std::size_t at_most);  ///< Forgets the last request; at most so many gradients
  /// @param number of the row in its table
  /// @param gradient (width) must stay valid until begin()
  void add(std::uint32_t number, float* row, const float* gradient);
  /// Ends a request. Returns the number of gradients that were left out because their sums are not finite.
  std::size_t finish();

  std::span<float* const> rows() const { return rows_; }
  std::span<const float* const> gradients() const { return gradients_; }

 private:
  struct Seen {
    std::uint32_t request = 0;  ///< In which it was written
    std::uint32_t number = 0;
    std::uint32_t entry = 0;
  };
  struct Sum {
    std::uint32_t entry = 0;
    std::uint32_t terms = 0;
  };

  std::size_t width_ = 0;
  std::uint32_t request_ = 0;
  int shift_ = 0;           ///< From 32 bits of hash to a place in `seen_`
  std::vector<Seen> seen_;  ///< A hash table, at most half full
  std::vector<float*> rows_;
  std::vector<const float*> gradients_;
  std::vector<std::uint32_t> sum_of_;  ///< Of each entry: its sum, or `alone`
  std::vector<Sum> sums_;
  std::vector<float> values_;  ///< (sums, width)
};

}  // namespace flotilla
