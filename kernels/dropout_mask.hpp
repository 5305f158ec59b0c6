// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "kernels/layers/dropout.hpp"
#include "kernels/random.hpp"

namespace flotilla {

/// Random words of the values 4·block … 4·block + 3; a value whose word is below dropout_threshold is
/// dropped.
constexpr std::array<std::uint32_t, 4> dropout_words(const DropoutSpec& spec, std::uint64_t step,
                                                     std::int64_t block) {
  const std::uint64_t index = std::uint64_t{spec.layer} << 40 | step;
  return philox({static_cast<std::uint32_t>(block), random_dropout, static_cast<std::uint32_t>(index),
                 static_cast<std::uint32_t>(index >> 32)},
                {static_cast<std::uint32_t>(spec.seed), static_cast<std::uint32_t>(spec.seed >> 32)});
}

constexpr std::uint32_t dropout_threshold(const DropoutSpec& spec) {
  return static_cast<std::uint32_t>(double{spec.probability} * 0x1.0p32);
}

}  // namespace flotilla
