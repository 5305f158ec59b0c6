// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/kernels/image_values.hpp"

namespace flotilla::test {

/// y, dx, dscale and dshift of random rows, with gradients that were 1 before; dx in the place of dy.
inline std::vector<std::vector<float>> run_layer_norm(Device& device, const LayerNormSpec& spec) {
  const Shape shape{spec.rows, spec.columns};
  const Shape image{spec.rows, spec.columns, 1, 1};  // one pixel lies alike in every layout
  const std::vector<float> ones(static_cast<std::size_t>(spec.columns), 1.0F);
  const Storage scale = storage_of(device, values(spec.columns, 3));
  const Storage shift = storage_of(device, values(spec.columns, 4));
  Storage dscale = storage_of(device, ones);
  Storage dshift = storage_of(device, ones);
  const Tensor x = image_of(device, image, values(shape.size(), 1, 3.0));
  Tensor dx = image_of(device, image, values(shape.size(), 2));
  Tensor y = stale_image(device, image);
  Tensor dx_rows = plain_view(dx, shape);
  Tensor y_rows = plain_view(y, shape);
  const auto plan = device.layers().layer_norm(spec);

  plan->forward(plain_view(x, shape), {scale.span(), shift.span()}, y_rows);
  plan->backward(plain_view(x, shape), {scale.span(), shift.span()}, dx_rows, {dscale.span(), dshift.span()},
                 dx_rows);

  return {read_image(device, y), read_image(device, dx), read(device, dscale), read(device, dshift)};
}

}  // namespace flotilla::test
