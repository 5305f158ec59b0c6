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

Precision precision_of(std::string_view word) {
  for (const Precision precision : {Precision::float32, Precision::float16, Precision::bfloat16})
    if (word == name(precision)) return precision;
  throw InternalError(cat("no precision \"", word, "\""));
}

}  // namespace flotilla
