// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/layers/pool2d.hpp"

namespace flotilla {

/// Pool2d on tensors of bfloat16 as own passes: oneDNN's add up the gradients of windows that overlap in
/// bfloat16, rounding each time.
class CpuBfloat16Pool2d final : public Pool2d {
 public:
  CpuBfloat16Pool2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                    const Pool2dSpec& spec);
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override;
  void backward(const Tensor& dy, Tensor& dx) override;

 private:
  std::uint16_t* chosen();
  template <class Lanes>
  void pool(Lanes lanes, const Tensor& x, Tensor& y);
  template <class Lanes>
  void spread(Lanes lanes, const Tensor& dy, Tensor& dx);
  /// The index in y of the first lane of a pixel of a block of x.
  std::int64_t place(std::int64_t image, std::int64_t block, std::int64_t pixel) const;

  std::shared_ptr<PrimitiveScope> scope_;
  Pool2dSpec spec_;
  ImageLayout source_;
  ImageLayout destination_;
  Storage chosen_;  // with max, two bytes for each value of y: the place in its window
};

}  // namespace flotilla
