// SPDX-License-Identifier: Apache-2.0
#include "kernels/reference/device.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "kernels/host_queue.hpp"
#include "kernels/host_tensors.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/reference/flat.hpp"
#include "kernels/reference/images.hpp"
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
