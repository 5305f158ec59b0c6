// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/layers.hpp"

#include "kernels/cpu/batch_norm.hpp"
#include "kernels/cpu/bfloat16_conv2d.hpp"
#include "kernels/cpu/bfloat16_linear.hpp"
#include "kernels/cpu/bfloat16_pool2d.hpp"
#include "kernels/cpu/conv2d.hpp"
#include "kernels/cpu/dropout.hpp"
#include "kernels/cpu/elementwise.hpp"
#include "kernels/cpu/layer_norm.hpp"
#include "kernels/cpu/linear.hpp"
#include "kernels/cpu/output_loss.hpp"
#include "kernels/cpu/pool2d.hpp"
#include "kernels/cpu/softmax_loss.hpp"
#include "kernels/error.hpp"

namespace flotilla {

namespace {

class CpuLayers : public Layers {
 public:
  CpuLayers(const CpuChoices& choices, const HostMemory& memory, CpuImages& images, std::string& description)
      : choices_(choices), memory_(memory), images_(images), description_(description) {}
  std::unique_ptr<Linear> linear(const LinearSpec& spec) override {
    if (!is_half(choices_.precision)) return std::make_unique<CpuLinear>(choices_.threads, spec);
    return std::make_unique<CpuBfloat16Linear>(scope_for(2 * spec.batch * spec.in * spec.out), spec);
  }
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec& spec) override {
    if (is_half(choices_.precision))
      return std::make_unique<CpuBfloat16Conv2d>(images_.parts().scope, images_.parts().layouts, spec);
    auto plan =
        std::make_unique<CpuConv2d>(images_.parts().scope, images_.parts().layouts, choices_.winograd, spec);
    describe_choice(plan->winograd_passes(WinogradUse::wherever_possible),
                    plan->winograd_passes(choices_.winograd));
    return plan;
  }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override {
    return with_values(choices_.precision, [&]<class T>(T) -> std::unique_ptr<BatchNorm> {
      return std::make_unique<CpuBatchNorm<T>>(images_.parts().scope, images_.parts().layouts, spec);
    });
  }
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormSpec& spec) override {
    return std::make_unique<CpuLayerNorm>(choices_.threads, choices_.precision, spec);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override {
    if (spec.kind == Pooling::global_average) {
      return with_values(choices_.precision, [&]<class T>(T) -> std::unique_ptr<Pool2d> {
        return std::make_unique<CpuGlobalAverage<T>>(choices_.threads, images_.parts().layouts, spec);
      });
    }
    if (is_half(choices_.precision))
      return std::make_unique<CpuBfloat16Pool2d>(images_.parts().scope, images_.parts().layouts, spec);
    return std::make_unique<CpuPool2d>(images_.parts().scope, images_.parts().layouts, spec);
  }
  std::unique_ptr<Elementwise> elementwise(const ElementwiseSpec& spec) override {
    return std::make_unique<CpuElementwise>(choices_.threads, choices_.precision, spec);
  }
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override {
    return std::make_unique<CpuDropout>(choices_.threads, choices_.precision, spec);
  }
  std::unique_ptr<Loss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return std::make_unique<CpuSoftmaxLoss>(choices_.threads, choices_.precision, spec, memory_);
  }
  std::unique_ptr<Loss> output_loss(const OutputLossSpec& spec) override {
    return std::make_unique<CpuOutputLoss>(choices_.threads, choices_.precision, spec, memory_);
  }

 private:
  /// For the products of a linear layer, each of `flops` operations: products of a few microseconds are not
  /// faster with two threads.
  std::shared_ptr<PrimitiveScope> scope_for(std::int64_t flops) {
    constexpr std::int64_t min_shared = 10'000'000;
    if (flops >= min_shared) return images_.parts().scope;
    if (!one_thread_) one_thread_ = std::make_shared<PrimitiveScope>(1, memory_);
    return one_thread_;
  }

  void describe_choice(int applies, int taken) {
    if (choices_.winograd == WinogradUse::never || applies == 0) return;
    winograd_applies_ += applies;
    winograd_taken_ += taken;
    description_ = cat(plain_description_, ", Winograd for ", winograd_taken_, " of ", winograd_applies_,
                       " passes of 3x3 convolutions");
  }

  CpuChoices choices_;
  const HostMemory& memory_;
  CpuImages& images_;
  std::string& description_;
  const std::string plain_description_ = description_;
  int winograd_applies_ = 0;  // passes of the convolutions planned so far
  int winograd_taken_ = 0;
  std::shared_ptr<PrimitiveScope> one_thread_;  // null until it is needed
};

}  // namespace

std::unique_ptr<Layers> make_cpu_layers(const CpuChoices& choices, const HostMemory& memory,
                                        CpuImages& images, std::string& description) {
  return std::make_unique<CpuLayers>(choices, memory, images, description);
}

}  // namespace flotilla
