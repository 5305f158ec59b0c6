// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/loops_device.hpp"

#include "kernels/cudnn/images.hpp"
#include "kernels/cudnn/loop_plans.hpp"
#include "kernels/device_loops/kokkos_loops.hpp"
#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/host_queue.hpp"
#include "kernels/host_tensors.hpp"
#include "tests/kernels/shuffled_order.hpp"
#include "tests/kernels/tested_devices.hpp"
#include "tests/kernels/values.hpp"

namespace flotilla::test {

namespace {

class LoopsTensors : public HostTensors {
 public:
  LoopsTensors(const DeviceMemory& memory, FlatMath& flat, Precision precision)
      : HostTensors(memory, flat), precision_(precision) {}
  std::size_t floats_of(const Shape& shape) const override {
    return flotilla::floats_of(shape.size(), precision_);
  }

 private:
  Precision precision_;
};

class LoopsLayers : public Layers {
 public:
  explicit LoopsLayers(const LoopsContext& context) : context_(context) {}
  std::unique_ptr<Linear> linear(const LinearSpec&) override {
    throw InternalError("loops have no products");
  }
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec&) override {
    throw InternalError("loops have no convolution");
  }
  std::unique_ptr<BatchNorm> batch_norm(const BatchNormSpec& spec) override {
    return make_batch_norm(context_, spec);
  }
  std::unique_ptr<LayerNorm> layer_norm(const LayerNormSpec& spec) override {
    return make_layer_norm(context_, spec);
  }
  std::unique_ptr<Pool2d> pool2d(const Pool2dSpec& spec) override { return make_pool2d(context_, spec); }
  std::unique_ptr<Elementwise> elementwise(const ElementwiseSpec& spec) override {
    return make_elementwise(context_, spec);
  }
  std::unique_ptr<Dropout> dropout(const DropoutSpec& spec) override { return make_dropout(context_, spec); }
  std::unique_ptr<Loss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return make_softmax_loss(context_, spec);
  }
  std::unique_ptr<Loss> output_loss(const OutputLossSpec& spec) override {
    return make_output_loss(context_, spec);
  }

 private:
  LoopsContext context_;
};

class LoopsDevice : public Device {
 public:
  explicit LoopsDevice(Precision precision)
      : loops_(serial_loops()),
        info_{.description = loops_->description(), .precision = precision, .shares_host_memory = true} {}

  const DeviceInfo& info() const override { return info_; }
  DeviceMemory& memory() override { return memory_; }
  DeviceQueue& queue() override { return queue_; }
  Tensors& tensors() override { return tensors_; }
  ImageOperations& images() override { return images_; }
  Layers& layers() override { return layers_; }
  FlatMath& flat() override { return loops_->flat(); }
  FlatUpdates& updates() override { return loops_->updates(); }

 private:
  std::unique_ptr<DeviceLoops> loops_;
  DeviceInfo info_;
  HostMemory memory_;
  HostQueue queue_{memory_};
  LoopsTensors tensors_{memory_, loops_->flat(), info_.precision};
  LoopsImages images_{{memory_, *loops_, info_.precision}, queue_};
  LoopsLayers layers_{{memory_, *loops_, info_.precision}};
};

}  // namespace

std::unique_ptr<DeviceLoops> serial_loops() {
  static const KokkosScope kokkos;
  start_kokkos(-1);
  return std::make_unique<KokkosLoops<ShuffledSerial, loops::PortableElements>>(
      ShuffledSerial(), [](std::size_t floats) { return HostMemory().allocate(floats); });
}

std::unique_ptr<Device> loops_device(Precision precision) {
  return std::make_unique<LoopsDevice>(precision);
}

std::vector<TestedDevice> tested_devices() {
  std::vector<TestedDevice> all;
  for (const Precision precision : all_precisions) {
    const MakeDevice make = [precision] { return loops_device(precision); };
    all.push_back({"loops_" + std::string(name(precision)), make, std::vector<MakeDevice>(4, make)});
  }
  return all;
}

}  // namespace flotilla::test
