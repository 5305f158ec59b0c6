// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/device.hpp"
#include "models/arena.hpp"

namespace flotilla {

/// Keeps slices of an array over an operation on all of it that would round them: frozen parameters over the
/// averaging of models, fixed statistics over the update of statistics.
class KeptValues {
 public:
  /// @param kept of each slice of the layout, whether it is kept; none: take() and put_back() do nothing
  KeptValues(Device& device, const ArenaLayout& layout, const std::vector<bool>& kept);
  void take(DeviceSpan<const float> array);          ///< Copies the slices of an array of the layout's size.
  void put_back(DeviceSpan<float> array) const;      ///< Writes what take() has copied.
  std::size_t size() const { return room_.size(); }  ///< Floats

 private:
  struct Range {
    std::size_t begin = 0;
    std::size_t count = 0;
  };

  FlatMath* flat_;
  std::vector<Range> ranges_;
  Storage room_;
};

}  // namespace flotilla
