// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/loops_device.hpp"

#include "kernels/error.hpp"
#include "kernels/gpu/loops/kokkos_loops.hpp"
#include "kernels/host_device.hpp"
#include "kernels/host_memory.hpp"
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

class NoProducts : public ProductLayers {
 public:
  std::unique_ptr<Linear> linear(const LinearSpec&) override {
    throw InternalError("loops have no products");
  }
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec&) override {
    throw InternalError("loops have no convolution");
  }
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
  ImageOperations& images() override { return *images_; }
  Layers& layers() override { return *layers_; }
  FlatMath& flat() override { return loops_->flat(); }
  FlatUpdates& updates() override { return loops_->updates(); }
  std::unique_ptr<OverflowGuard> overflow_guard(const OverflowGuardSpec& spec) override {
    return loops_->overflow_guard(memory_, spec);
  }

 private:
  std::unique_ptr<DeviceLoops> loops_;
  DeviceInfo info_;
  HostMemory memory_;
  HostQueue queue_{memory_};
  LoopsTensors tensors_{memory_, loops_->flat(), info_.precision};
  NoProducts products_;
  std::unique_ptr<ImageOperations> images_ = loops_->images(memory_, info_.precision, queue_);
  std::unique_ptr<Layers> layers_ = loops_->layers(memory_, info_.precision, products_);
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
