// SPDX-License-Identifier: Apache-2.0
#include "kernels/precision.hpp"

#include "kernels/error.hpp"

namespace flotilla {

std::string_view name(Precision precision) {
  switch (precision) {
    case Precision::float16: return "float16";
    case Precision::bfloat16: return "bfloat16";
    case Precision::float32: break;
  }
  return "float32";
}

}  // namespace flotilla
