// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/cudnn/convolution_algorithms.hpp"
#include "kernels/device_loops/loops_images.hpp"

namespace flotilla {

/// Operations on images on a GPU: cuDNN's convolutions, own loops for the rest.
class CudaImages : public LoopsImages {
 public:
  CudaImages(const LoopsContext& context, std::shared_ptr<CudaScope> scope);
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override;

 private:
  std::shared_ptr<CudaScope> scope_;
  AlgorithmChoice choice_;
};

}  // namespace flotilla
