// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/layers.hpp"

#include "kernels/onednn/batch_norm.hpp"
#include "kernels/onednn/conv2d.hpp"
#include "kernels/onednn/dropout.hpp"
#include "kernels/onednn/linear.hpp"
#include "kernels/onednn/pool2d.hpp"
#include "kernels/onednn/softmax_loss.hpp"

namespace flotilla {

std::unique_ptr<Linear> CpuLayers::linear(const LinearSpec& spec) {
  return std::make_unique<CpuLinear>(threads_, spec);
}
std::unique_ptr<Conv2d> CpuLayers::conv2d(const Conv2dSpec& spec) {
  return std::make_unique<CpuConv2d>(images_.parts().scope, images_.parts().layouts, winograd_, spec);
}
std::unique_ptr<BatchNorm> CpuLayers::batch_norm(const BatchNormSpec& spec) {
  return std::make_unique<CpuBatchNorm>(images_.parts().scope, images_.parts().layouts, spec);
}
std::unique_ptr<Pool2d> CpuLayers::pool2d(const Pool2dSpec& spec) {
  if (spec.kind == Pooling::global_average)
    return std::make_unique<CpuGlobalAverage>(threads_, images_.parts().layouts, spec);
  return std::make_unique<CpuPool2d>(images_.parts().scope, images_.parts().layouts, spec);
}
std::unique_ptr<Dropout> CpuLayers::dropout(const DropoutSpec& spec) {
  return std::make_unique<CpuDropout>(threads_, spec);
}
std::unique_ptr<SoftmaxLoss> CpuLayers::softmax_loss(const SoftmaxLossSpec& spec) {
  return std::make_unique<CpuSoftmaxLoss>(threads_, spec, memory_);
}

}  // namespace flotilla
