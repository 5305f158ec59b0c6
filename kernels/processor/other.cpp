// SPDX-License-Identifier: Apache-2.0
// For processors other than x86-64, where no instruction set is checked.
#include "kernels/build_info.hpp"
#include "kernels/processor/processor.hpp"
#include "kernels/processor/required_features.hpp"

namespace flotilla {

std::string built_for() {
  return required_feature::architecture;
}

bool flush_denormals() {
  return false;
}

bool is_amd() {
  return false;
}

void check_processor() {}

}  // namespace flotilla
