// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/layers.hpp"

#include "kernels/onednn/batch_norm.hpp"
#include "kernels/onednn/bfloat16_conv2d.hpp"
#include "kernels/onednn/bfloat16_linear.hpp"
#include "kernels/onednn/bfloat16_pool2d.hpp"
#include "kernels/onednn/conv2d.hpp"
#include "kernels/onednn/dropout.hpp"
#include "kernels/onednn/elementwise.hpp"
#include "kernels/onednn/layer_norm.hpp"
#include "kernels/onednn/linear.hpp"
#include "kernels/onednn/output_loss.hpp"
#include "kernels/onednn/pool2d.hpp"
#include "kernels/onednn/softmax_loss.hpp"

namespace flotilla {

std::shared_ptr<PrimitiveScope> CpuLayers::scope_for(std::int64_t flops) {
  constexpr std::int64_t least_shared = 10'000'000;
  if (flops >= least_shared) return images_.parts().scope;
  if (!one_thread_) one_thread_ = std::make_shared<PrimitiveScope>(1, memory_);
  return one_thread_;
}

std::unique_ptr<Linear> CpuLayers::linear(const LinearSpec& spec) {
  if (!is_half(choices_.precision)) return std::make_unique<CpuLinear>(choices_.threads, spec);
  return std::make_unique<CpuBfloat16Linear>(scope_for(2 * spec.batch * spec.in * spec.out), spec);
}
std::unique_ptr<Conv2d> CpuLayers::conv2d(const Conv2dSpec& spec) {
  if (is_half(choices_.precision))
    return std::make_unique<CpuBfloat16Conv2d>(images_.parts().scope, images_.parts().layouts, spec);
  return std::make_unique<CpuConv2d>(images_.parts().scope, images_.parts().layouts, choices_.winograd, spec);
}
std::unique_ptr<BatchNorm> CpuLayers::batch_norm(const BatchNormSpec& spec) {
  return with_values(choices_.precision, [&]<class T>(T) -> std::unique_ptr<BatchNorm> {
    return std::make_unique<CpuBatchNorm<T>>(images_.parts().scope, images_.parts().layouts, spec);
  });
}
std::unique_ptr<LayerNorm> CpuLayers::layer_norm(const LayerNormSpec& spec) {
  return std::make_unique<CpuLayerNorm>(choices_.threads, choices_.precision, spec);
}
std::unique_ptr<Pool2d> CpuLayers::pool2d(const Pool2dSpec& spec) {
  if (spec.kind == Pooling::global_average) {
    return with_values(choices_.precision, [&]<class T>(T) -> std::unique_ptr<Pool2d> {
      return std::make_unique<CpuGlobalAverage<T>>(choices_.threads, images_.parts().layouts, spec);
    });
  }
  if (is_half(choices_.precision))
    return std::make_unique<CpuBfloat16Pool2d>(images_.parts().scope, images_.parts().layouts, spec);
  return std::make_unique<CpuPool2d>(images_.parts().scope, images_.parts().layouts, spec);
}
std::unique_ptr<Elementwise> CpuLayers::elementwise(const ElementwiseSpec& spec) {
  return std::make_unique<CpuElementwise>(choices_.threads, choices_.precision, spec);
}
std::unique_ptr<Dropout> CpuLayers::dropout(const DropoutSpec& spec) {
  return std::make_unique<CpuDropout>(choices_.threads, choices_.precision, spec);
}
std::unique_ptr<Loss> CpuLayers::softmax_loss(const SoftmaxLossSpec& spec) {
  return std::make_unique<CpuSoftmaxLoss>(choices_.threads, choices_.precision, spec, memory_);
}
std::unique_ptr<Loss> CpuLayers::output_loss(const OutputLossSpec& spec) {
  return std::make_unique<CpuOutputLoss>(choices_.threads, choices_.precision, spec, memory_);
}

}  // namespace flotilla
