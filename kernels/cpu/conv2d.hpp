// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "kernels/cpu/image_layout.hpp"
#include "kernels/cpu/operation.hpp"
#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/cpu/winograd.hpp"
#include "kernels/device.hpp"
#include "kernels/layers/conv2d.hpp"

namespace flotilla {

// The weights of convolutions as oneDNN sees them.

/// The specification itself. @throws InternalError unless check_spec() accepts it
const Conv2dSpec& checked(const Conv2dSpec& spec);
/// (O,I,K,K), in groups (G,O/G,I/G,K,K).
dnnl::memory::dims weight_dims(const Conv2dSpec& spec);
/// Floats in plain order, (O,I/groups,K,K).
dnnl::memory::desc plain_weight(const Conv2dSpec& spec);
/// Values without padding.
std::int64_t plain_size(const Conv2dSpec& spec);

/// Host memory on both sides. For weights that are loaded and saved, not more: the reorder is made for the
/// call. @throws LibraryError
void copy_weight(const PrimitiveScope& scope, const dnnl::memory::desc& from_layout,
                 std::span<const float> from, const dnnl::memory::desc& to_layout, std::span<float> to);

/// Conv2d in float32: each pass by Winograd's algorithm where that is allowed, applies and pays, else as
/// oneDNN's direct convolution in the layouts of its own choice. Weights and gradients are kept in the layout
/// of the former, or of the direct forward convolution; other primitives get them through a reorder.
class CpuConv2d final : public Conv2d {
 public:
  CpuConv2d(std::shared_ptr<PrimitiveScope> scope, const ImageLayouts& layouts, WinogradUse winograd,
            const Conv2dSpec& spec);
  /// The number of passes that Winograd's algorithm would compute by `use`; none where the plan is without
  /// it.
  int winograd_passes(WinogradUse use) const;
  Shape output_shape() const override { return flotilla::output_shape(spec_); }
  std::int64_t weight_size() const override;
  std::int64_t flops() const override { return flotilla::flops(spec_); }
  void forward(const Tensor& x, Weights w, Tensor& y) override;
  void backward_data(const Tensor& dy, Weights w, Tensor& dx) override;
  void backward_weights(const Tensor& x, const Tensor& dy, Gradients dw) override;
  void weight_from_plain(std::span<const float> plain, std::span<float> stored) const override;
  void weight_to_plain(std::span<const float> stored, std::span<float> plain) const override;

 private:
  bool takes_winograd(ConvolutionPass pass, WinogradUse use) const;
  void make_operations(WinogradUse use);

  std::shared_ptr<PrimitiveScope> scope_;
  Conv2dSpec spec_;
  ImageLayout source_;
  ImageLayout destination_;
  dnnl::memory::desc weight_;  // as kept in the arena
  std::optional<WinogradConv2d> winograd_;
  Operation forward_;
  Operation backward_data_;
  Operation backward_weights_;
};

}  // namespace flotilla
