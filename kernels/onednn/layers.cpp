// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/layers.hpp"

#include "kernels/float_values.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/onednn/batch_norm.hpp"
#include "kernels/onednn/conv2d.hpp"
#include "kernels/onednn/image_passes.hpp"
#include "kernels/onednn/linear.hpp"
#include "kernels/onednn/pool2d.hpp"
#include "kernels/onednn/softmax_loss.hpp"

namespace flotilla {

namespace {

class CpuDropout : public Dropout {
 public:
  CpuDropout(int threads, const DropoutSpec& spec) : threads_(threads), spec_(spec) { check_spec(spec); }
  void forward(std::uint64_t step, const Tensor& x, Tensor& y) override {
    check_dropout(spec_, step, x, y);
    drop_out(threads_, spec_, step, float_values(x).address(), float_values(y).address());
  }
  void backward(std::uint64_t step, const Tensor& dy, Tensor& dx) override { forward(step, dy, dx); }

 private:
  int threads_;
  DropoutSpec spec_;
};

}  // namespace

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
