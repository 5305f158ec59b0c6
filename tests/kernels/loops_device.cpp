// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/loops_device.hpp"

#include <algorithm>

#include "kernels/device_loops/kokkos_loops.hpp"
#include "kernels/device_loops/loops_images.hpp"
#include "kernels/error.hpp"
#include "kernels/host_memory.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla::test {

namespace {

class ImagesWithoutProducts : public LoopsImages {
 public:
  using LoopsImages::LoopsImages;
  std::unique_ptr<Conv2d> conv2d(const Conv2dSpec&) override {
    throw InternalError("loops have no convolution");
  }
};

class LoopsDevice : public Device {
 public:
  explicit LoopsDevice(Precision precision)
      : precision_(precision), loops_(serial_loops()), images_({*this, *loops_, precision}) {}

  std::string_view name() const override { return "loops"; }
  std::string description() const override { return loops_->description(); }
  bool shares_host_memory() const override { return true; }
  int threads() const override { return 1; }
  Precision precision() const override { return precision_; }
  std::size_t floats_of(const Shape& shape) const override {
    return flotilla::floats_of(shape.size(), precision_);
  }
  Storage allocate(std::size_t count) override { return memory_.allocate(count); }
  Tensor tensor(const Shape& shape) override { return {shape, allocate(floats_of(shape))}; }
  std::int64_t allocated_bytes() const override { return memory_.allocated_bytes(); }
  void upload(std::span<const float> from, DeviceSpan<float> to) override {
    require(from.size() == to.size(), "upload of ", from.size(), " into ", to.size(), " values");
    std::ranges::copy(from, to.address());
  }
  void download(DeviceSpan<const float> from, std::span<float> to) override {
    require(from.size() == to.size(), "download of ", from.size(), " into ", to.size(), " values");
    std::copy_n(from.address(), from.size(), to.begin());
  }
  void stage(std::span<float> batch, Tensor& to) override { stage_in_place(batch, to); }
  std::unique_ptr<Linear> linear(const LinearSpec&) override {
    throw InternalError("loops have no products");
  }
  std::unique_ptr<SoftmaxLoss> softmax_loss(const SoftmaxLossSpec& spec) override {
    return make_softmax_loss({*this, *loops_, precision_}, spec);
  }
  ImageOperations& images() override { return images_; }
  FlatMath& flat() override { return loops_->flat(); }
  void synchronize() override {}

 private:
  Precision precision_;
  HostMemory memory_;
  std::unique_ptr<DeviceLoops> loops_;
  ImagesWithoutProducts images_;
};

}  // namespace

std::unique_ptr<DeviceLoops> serial_loops() {
  static const KokkosScope kokkos;
  start_kokkos(-1);
  return std::make_unique<KokkosLoops<Kokkos::Serial, loops::PortableElements>>(
      Kokkos::Serial(), [](std::size_t floats) { return HostMemory().allocate(floats); });
}

std::unique_ptr<Device> loops_device(Precision precision) {
  return std::make_unique<LoopsDevice>(precision);
}

std::vector<float> rounded(Precision precision, std::vector<float> values) {
  for (float& value : values) value = half::rounded(precision, value);
  return values;
}

double rounding_error(Precision precision) {
  switch (precision) {
    case Precision::float32: return 0x1p-24;
    case Precision::float16: return 0x1p-11;
    case Precision::bfloat16: return 0x1p-8;
  }
  return 1.0;
}

}  // namespace flotilla::test
