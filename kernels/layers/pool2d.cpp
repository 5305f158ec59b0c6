// SPDX-License-Identifier: Apache-2.0
#include "kernels/layers/pool2d.hpp"

#include "kernels/error.hpp"
#include "kernels/layers/conv2d.hpp"

namespace flotilla {

Shape output_shape(const Pool2dSpec& s) {
  if (s.kind == Pooling::global_average) return {s.input[0], s.input[1], 1, 1};
  return {s.input[0], s.input[1], windows(s.input[2], s.kernel, s.stride, s.padding),
          windows(s.input[3], s.kernel, s.stride, s.padding)};
}

void Pool2d::backward_sum(const Tensor&, const Tensor&, Tensor&) {
  throw InternalError("this pooling takes one gradient");
}

}  // namespace flotilla
