// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace flotilla {

/// The ids of the samples of a batch: for each row and slot a bag of ids, repeats included.
struct Bags {
  std::span<const std::uint64_t> ids{};  ///< Of all bags, one after another
  std::span<const float> values{};       ///< Factor of the embedding of each id; empty: 1
  std::span<const std::int32_t> ends{};  ///< rows × slots: where each bag ends in `ids`
};

}  // namespace flotilla
