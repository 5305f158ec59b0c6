// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_device.hpp"

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"

namespace flotilla {

namespace {

class HostCopyLane : public CopyLane {
 public:
  explicit HostCopyLane(const DeviceMemory& memory) : memory_(memory) {}

  Mark mark() override { return 0; }
  void download(Mark, DeviceSpan<const float> from, std::span<float> host) override {
    memory_.download(from, host);
  }
  void upload(std::span<const float> host, DeviceSpan<float> to) override { memory_.upload(host, to); }

 private:
  const DeviceMemory& memory_;
};

}  // namespace

std::unique_ptr<CopyLane> HostQueue::copy_lane() {
  return std::make_unique<HostCopyLane>(memory_);
}

Tensor HostTensors::zeros(const Shape& shape) {
  return {shape, memory_.allocate(floats_of(shape))};
}

void HostTensors::download(const Tensor& from, std::span<float> host) {
  memory_.download(float_values(from), host);
}

bool HostTensors::all_finite(const Tensor& x) {
  return flat_.all_finite(float_values(x));
}

std::span<float> HostTensors::batch_values(const HostBatch& batch, const Shape& shape) {
  const auto* const values = std::get_if<std::span<float>>(&batch);
  require(values != nullptr, "this device takes no images of bytes");
  require(values->size() == static_cast<std::size_t>(shape.size()), "a batch of ", values->size(),
          " values for ", shape.text());
  return *values;
}

void HostTensors::stage(const HostBatch& batch, Tensor& to) {
  const Shape shape = to.shape();
  const std::span<float> values = batch_values(batch, shape);
  to = Tensor(shape, DeviceSpan<float>(values.data(), values.size()));
}

}  // namespace flotilla
