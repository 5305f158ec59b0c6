// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/layers.hpp"

#include "kernels/error.hpp"
#include "kernels/onednn/batch_norm.hpp"
#include "kernels/onednn/conv2d.hpp"
#include "kernels/onednn/dropout.hpp"
#include "kernels/onednn/linear.hpp"
#include "kernels/onednn/pool2d.hpp"
#include "kernels/onednn/softmax_loss.hpp"

namespace flotilla {

namespace {

void refuse_half(Precision precision, const char* what) {
  if (is_half(precision))
    throw UserError(cat("device.kind = \"cpu\" has no ", what, " in ", name(precision), ": use \"float32\""));
}

}  // namespace

std::unique_ptr<Linear> CpuLayers::linear(const LinearSpec& spec) {
  refuse_half(choices_.precision, "linear layers");
  return std::make_unique<CpuLinear>(choices_.threads, spec);
}
std::unique_ptr<Conv2d> CpuLayers::conv2d(const Conv2dSpec& spec) {
  refuse_half(choices_.precision, "convolutions");
  return std::make_unique<CpuConv2d>(images_.parts().scope, images_.parts().layouts, choices_.winograd, spec);
}
std::unique_ptr<BatchNorm> CpuLayers::batch_norm(const BatchNormSpec& spec) {
  refuse_half(choices_.precision, "batch norm");
  return std::make_unique<CpuBatchNorm>(images_.parts().scope, images_.parts().layouts, spec);
}
std::unique_ptr<Pool2d> CpuLayers::pool2d(const Pool2dSpec& spec) {
  refuse_half(choices_.precision, "pooling");
  if (spec.kind == Pooling::global_average)
    return std::make_unique<CpuGlobalAverage>(choices_.threads, images_.parts().layouts, spec);
  return std::make_unique<CpuPool2d>(images_.parts().scope, images_.parts().layouts, spec);
}
std::unique_ptr<Dropout> CpuLayers::dropout(const DropoutSpec& spec) {
  refuse_half(choices_.precision, "dropout");
  return std::make_unique<CpuDropout>(choices_.threads, spec);
}
std::unique_ptr<SoftmaxLoss> CpuLayers::softmax_loss(const SoftmaxLossSpec& spec) {
  refuse_half(choices_.precision, "a loss");
  return std::make_unique<CpuSoftmaxLoss>(choices_.threads, spec, memory_);
}

}  // namespace flotilla
