// SPDX-License-Identifier: Apache-2.0
// For processors other than x86-64, where no instruction set is checked.
#include "kernels/half_rounding.hpp"
#include "kernels/processor/processor.hpp"
#include "kernels/processor/required_features.hpp"

namespace flotilla {

std::string built_for() {
  return required_feature::architecture;
}

bool flush_denormals() {
  return false;
}

void round_to_bfloat16(std::int64_t count, const float* from, std::uint16_t* to) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = half::bfloat16_of(from[i]);
}

bool is_amd() {
  return false;
}

}  // namespace flotilla
