// SPDX-License-Identifier: Apache-2.0
#include "kernels/layers/conv2d.hpp"

namespace flotilla {

std::int64_t windows(std::int64_t extent, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  return (extent + 2 * padding - kernel) / stride + 1;
}

Shape output_shape(const Conv2dSpec& s) {
  return {s.input[0], s.out_channels, windows(s.input[2], s.kernel, s.stride, s.padding),
          windows(s.input[3], s.kernel, s.stride, s.padding)};
}

std::int64_t flops(const Conv2dSpec& s) {
  return 2 * output_shape(s).size() * s.input[1] / s.groups * s.kernel * s.kernel;
}

}  // namespace flotilla
