// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/layers.hpp"

#include <utility>

#include "kernels/cudnn/conv2d.hpp"
#include "kernels/cudnn/linear.hpp"
#include "kernels/cudnn/loop_plans.hpp"

namespace flotilla {

CudaLayers::CudaLayers(const LoopsContext& context, std::shared_ptr<CudaScope> scope)
    : context_(context), scope_(std::move(scope)), choice_(scope_) {}

std::unique_ptr<Linear> CudaLayers::linear(const LinearSpec& spec) {
  return std::make_unique<CudaLinear>(scope_, spec);
}
std::unique_ptr<Conv2d> CudaLayers::conv2d(const Conv2dSpec& spec) {
  return std::make_unique<CudaConv2d>(scope_, choice_, spec);
}
std::unique_ptr<BatchNorm> CudaLayers::batch_norm(const BatchNormSpec& spec) {
  return make_batch_norm(context_, spec);
}
std::unique_ptr<LayerNorm> CudaLayers::layer_norm(const LayerNormSpec& spec) {
  return make_layer_norm(context_, spec);
}
std::unique_ptr<Pool2d> CudaLayers::pool2d(const Pool2dSpec& spec) {
  return make_pool2d(context_, spec);
}
std::unique_ptr<Elementwise> CudaLayers::elementwise(const ElementwiseSpec& spec) {
  return make_elementwise(context_, spec);
}
std::unique_ptr<Dropout> CudaLayers::dropout(const DropoutSpec& spec) {
  return make_dropout(context_, spec);
}
std::unique_ptr<Loss> CudaLayers::softmax_loss(const SoftmaxLossSpec& spec) {
  return make_softmax_loss(context_, spec);
}
std::unique_ptr<Loss> CudaLayers::output_loss(const OutputLossSpec& spec) {
  return make_output_loss(context_, spec);
}

}  // namespace flotilla
