// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/cpu/operation.hpp"
#include "kernels/layers/conv2d.hpp"

namespace flotilla {

/// Conv2d on tensors of bfloat16, with weights and their gradients in float32. Where the library keeps
/// weights in a layout of its own, each pass makes its copy: of their halves, or where the arena has the
/// library's layout for gradients, which halves have none of, of float32. Gradients of weights are written in
/// the layout that the arena keeps. Forward is oneDNN's convolution. Backward is one, or for images that lie
/// as (N,H,W,C) a matrix product over pixels as rows, which AMX computes up to five times as fast: of kernels
/// of 1, of strides, and for weights' gradients of small images.
class CpuBfloat16Conv2d final : public Conv2d {
 public:
  CpuBfloat16Conv2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts,
                    const Conv2dSpec& spec);
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  std::int64_t weight_size() const override;
  std::int64_t flops() const override { return flotilla::flops(spec_); }
  void forward(const Tensor& x, Weights w, Tensor& y) override;
  void backward_data(const Tensor& dy, Weights w, Tensor& dx) override;
  void backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) override;
  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override;
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override;

 private:
  void make_operations();
  Operation weights_by_product(bool add) const;
  Operation data_by_product();
  bool are_rows(const ImageLayout& layout) const;  // pixel after pixel
  bool has_weights_by_product() const;
  bool has_data_by_product() const;
  bool is_dense() const;  // a row of a product is a pixel of the input
  // Parts of a batch of which one is gathered or summed at a time, `bytes` being a row's.
  std::int64_t parts_of_rows(std::int64_t bytes) const;
  Conv2dSpec part(std::int64_t parts) const;
  const void* read_weight(const Weights& w) const;

  std::shared_ptr<PrimitiveScope> scope_;
  Conv2dSpec spec_;
  ImageLayout source_;
  ImageLayout destination_;
  dnnl::memory::desc weight_;       // as kept in the arena
  dnnl::memory::desc read_weight_;  // what forward and backward_data read: halves, or weight_
  Operation forward_;
  Operation backward_data_;
  Operation backward_weights_;
  Operation add_weights_;  // adds the weight gradients of later parts to those of the first
  std::int64_t data_parts_ = 1;
  std::int64_t weight_parts_ = 1;
};

}  // namespace flotilla
