// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/cuda_images.hpp"

#include <utility>

#include "kernels/cudnn/cuda_conv2d.hpp"

namespace flotilla {

CudaImages::CudaImages(const LoopsContext& context, std::shared_ptr<CudaScope> scope)
    : LoopsImages(context), scope_(std::move(scope)), choice_(scope_) {}

std::unique_ptr<Conv2d> CudaImages::conv2d(const Conv2dSpec& spec) {
  return std::make_unique<CudaConv2d>(scope_, choice_, spec);
}

}  // namespace flotilla
