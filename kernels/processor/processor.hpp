// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace flotilla {

/// "native (avx2 fma avx512f)": the -march value and the checked features that it makes the program need.
std::string built_for();

}  // namespace flotilla
