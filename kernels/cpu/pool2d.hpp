// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/cpu/operation.hpp"
#include "kernels/layers/pool2d.hpp"

namespace flotilla {

/// Pool2d in float32 as oneDNN's primitives; max keeps in a workspace of its own where the largest values
/// were.
class CpuPool2d final : public Pool2d {
 public:
  CpuPool2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts, const Pool2dSpec& spec);
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override;
  void backward(const Tensor& dy, Tensor& dx) override;

 private:
  void make_operations();

  std::shared_ptr<PrimitiveScope> scope_;
  Pool2dSpec spec_;
  ImageLayout source_;
  ImageLayout destination_;
  Storage workspace_;
  Operation forward_;
  Operation backward_;
};

/// Pool2d of kind global_average as one own pass. T is what tensors hold: float or Bfloat16.
template <class T>
class CpuGlobalAverage : public Pool2d {
 public:
  CpuGlobalAverage(int threads, const ImageLayouts& layouts, const Pool2dSpec& spec);
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  void forward(const Tensor& x, Tensor& y) override;
  void backward(const Tensor& dy, Tensor& dx) override;

 private:
  int threads_;
  Pool2dSpec spec_;
  ImageLayout source_;
  ImageLayout destination_;
};

}  // namespace flotilla
