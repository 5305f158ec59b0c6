// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/device.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/host_device.hpp"
#include "kernels/image_checks.hpp"
#include "kernels/image_operations.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/reference/flat.hpp"
#include "kernels/reference/layers.hpp"
#include "kernels/reference/loops.hpp"
#include "kernels/reference/rounding.hpp"
#include "kernels/reference/tagged_memory.hpp"

namespace flotilla {

namespace {

using reference::host;

/// Copies batches into memory that the host cannot reach.
class ReferenceTensors : public HostTensors {
 public:
  using HostTensors::HostTensors;

  void stage(const HostBatch& batch, Tensor& to) override {
    const auto* const images = std::get_if<ByteImages>(&batch);
    if (images != nullptr) check_bytes(*images, to);
    if (to.span().empty()) to = zeros(to.shape());
    if (images != nullptr) return reference::scale_bytes(*images, host(to.span()));
    const auto values = std::get<std::span<float>>(batch);
    require(values.size() == to.span().size(), "a batch of ", values.size(), " values for ",
            to.shape().text());
    std::ranges::copy(values, host(to.span()).begin());
  }
};

/// Image tensors, which are plain here, and their sums.
class ReferenceImages : public ImageOperations {
 public:
  ReferenceImages(const reference::TaggedMemory& memory, reference::Rounding rounding)
      : memory_(memory), rounding_(rounding) {}
  Tensor tensor(const Shape& shape) override;
  Tensor view(const Shape& shape, DeviceSpan<float> memory) override;
  void upload(std::span<const float> host, Tensor& to) override;
  void download(const Tensor& from, std::span<float> host) override;
  void copy(const Tensor& from, Tensor& to) override;
  void add(const Tensor& x, Tensor& y) override;
  void add_relu(const Tensor& a, const Tensor& b, Tensor& y) override;
  void add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) override;

 private:
  const reference::TaggedMemory& memory_;
  reference::Rounding rounding_;
};

void check_same_shape(const Tensor& a, const Tensor& b) {
  require(a.shape() == b.shape(), "tensors of one shape are needed, got ", a.shape().text(), " and ",
          b.shape().text());
}

Tensor ReferenceImages::tensor(const Shape& shape) {
  return {shape, memory_.allocate(static_cast<std::size_t>(shape.size()))};
}

Tensor ReferenceImages::view(const Shape& shape, DeviceSpan<float> memory) {
  check_view(shape, static_cast<std::size_t>(shape.size()), memory);
  return {shape, memory};
}

void ReferenceImages::upload(std::span<const float> from, Tensor& to) {
  require(from.size() == to.span().size(), "upload of ", from.size(), " into ", to.span().size(), " values");
  std::ranges::copy(from, host(to.span()).begin());
}

void ReferenceImages::download(const Tensor& from, std::span<float> to) {
  require(from.span().size() == to.size(), "download of ", from.span().size(), " into ", to.size(),
          " values");
  std::ranges::copy(host(from.span()), to.begin());
}

void ReferenceImages::copy(const Tensor& from, Tensor& to) {
  check_same_shape(from, to);
  std::ranges::copy(host(from.span()), host(to.span()).begin());
}

void ReferenceImages::add(const Tensor& x, Tensor& y) {
  check_same_shape(x, y);
  for (std::size_t i = 0; i < x.span().size(); ++i) host(y.span())[i] += host(x.span())[i];
  rounding_.round(host(y.span()));
}

void ReferenceImages::add_relu(const Tensor& a, const Tensor& b, Tensor& y) {
  check_image("b", b, a.shape());
  check_image("y", y, a.shape());
  for (std::size_t i = 0; i < a.span().size(); ++i) {
    const float sum = host(a.span())[i] + host(b.span())[i];
    host(y.span())[i] = sum < 0.0F ? 0.0F : sum;  // NaN stays NaN
  }
  rounding_.round(host(y.span()));
}

void ReferenceImages::add_relu_backward(const Tensor& y, const Tensor& dy, Tensor& dx) {
  check_image("dy", dy, y.shape());
  check_image("dx", dx, y.shape());
  for (std::size_t i = 0; i < y.span().size(); ++i)
    host(dx.span())[i] = host(y.span())[i] > 0.0F ? host(dy.span())[i] : 0.0F;
}

class ReferenceDevice : public Device {
 public:
  ReferenceDevice(Precision precision, bool half_weight_gradients)
      : info_{.description = "plain loops in double, 1 thread", .precision = precision, .stages_bytes = true},
        rounding_(precision),
        layers_(make_reference_layers(
            memory_, rounding_,
            half_weight_gradients ? rounding_ : reference::Rounding(Precision::float32))) {
    if (is_half(precision)) info_.description += cat(", values rounded to ", name(precision));
  }

  const DeviceInfo& info() const override { return info_; }
  DeviceMemory& memory() override { return memory_; }
  DeviceQueue& queue() override { return queue_; }
  Tensors& tensors() override { return tensors_; }
  ImageOperations& images() override { return images_; }
  Layers& layers() override { return *layers_; }
  FlatMath& flat() override { return flat_; }
  FlatUpdates& updates() override { return flat_; }

 private:
  DeviceInfo info_;
  reference::Rounding rounding_;
  reference::TaggedMemory memory_;
  HostQueue queue_{memory_};
  ReferenceFlat flat_;
  ReferenceTensors tensors_{memory_, flat_};
  ReferenceImages images_{memory_, rounding_};
  std::unique_ptr<Layers> layers_;
};

}  // namespace

std::unique_ptr<Device> make_reference_device(Precision precision, bool half_weight_gradients) {
  return std::make_unique<ReferenceDevice>(precision, half_weight_gradients);
}

}  // namespace flotilla
