// SPDX-License-Identifier: Apache-2.0
#include "kernels/gpu/tensors.hpp"

#include <utility>

#include "kernels/error.hpp"
#include "kernels/float_values.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

CudaTensors::CudaTensors(const DeviceMemory& memory, ImageOperations& images,
                         std::shared_ptr<CudaScope> scope)
    : memory_(memory), images_(images), scope_(std::move(scope)) {}

Tensor CudaTensors::zeros(const Shape& shape) {
  return {shape, memory_.allocate(floats_of(shape))};
}

std::size_t CudaTensors::floats_of(const Shape& shape) const {
  return flotilla::floats_of(shape.size(), scope_->precision());
}

DeviceSpan<const float> CudaTensors::floats(const Tensor& x) {
  if (!is_half(scope_->precision())) return float_values(x);
  const auto size = static_cast<std::size_t>(x.shape().size());
  if (floats_.size() < size) floats_ = memory_.allocate(size);
  const DeviceSpan<float> to = floats_.span().subspan(0, size);
  scope_->passes().cast(values_of(x, scope_->precision()), values_of(to), {});
  return to;
}

void CudaTensors::download(const Tensor& from, std::span<float> host) {
  memory_.download(floats(from), host);
}

/// For a batch, images in NHWC. A tensor that this has made before is taken again.
void CudaTensors::make_room(Tensor& to) {
  const Shape shape = to.shape();
  if (const auto* const staged = dynamic_cast<const StagedLayout*>(to.layout())) {
    const ImageForm form = staged->form();
    const std::size_t floats = flotilla::floats_of(form.size(shape), scope_->precision());
    if (to.span().size() != floats)
      to = {shape, memory_.allocate(floats), std::make_shared<StagedLayout>(form)};
    return;
  }
  const bool image = shape.rank() == 4;
  if (to.span().size() != floats_of(shape) || (to.layout() != nullptr) != image)
    to = image ? images_.tensor(shape) : zeros(shape);
}

void CudaTensors::round(DeviceSpan<const float> from, HalfSpan to) {
  require(is_half(scope_->precision()), "a GPU that computes in float32 reads no halves");
  scope_->passes().cast(values_of(from),
                        {to.address(), static_cast<std::int64_t>(to.size()), scope_->precision()}, {});
}

bool CudaTensors::all_finite(const Tensor& x) {
  return scope_->loops().flat().all_finite(floats(x));
}

void CudaTensors::stage(const HostBatch& batch, Tensor& to) {
  if (const auto* const bytes = std::get_if<ByteImages>(&batch)) return stage_bytes(*bytes, to);
  stage_values(std::get<std::span<float>>(batch), to);
}

void CudaTensors::stage_values(std::span<float> host, Tensor& to) {
  const Shape shape = to.shape();
  require(host.size() == static_cast<std::size_t>(shape.size()), "a staged batch must hold ", shape.size(),
          " values, has ", host.size());
  make_room(to);
  const GivenValues batch = values_of(scope_->uploads().batch<float>(host));
  if (shape.rank() == 4) {
    scope_->passes().to_nhwc(shape, stored_form(to), batch, stored_values(to, scope_->precision()));
  } else {
    scope_->passes().cast(batch, values_of(to, scope_->precision()), {});
  }
}

void CudaTensors::stage_bytes(const ByteImages& host, Tensor& to) {
  check_bytes(host, to);
  make_room(to);
  const DeviceSpan<const std::uint8_t> bytes = scope_->uploads().batch(host.pixels);
  if (to.shape().rank() == 4) {
    scope_->passes().from_bytes(host.shape, stored_form(to), bytes, host.scaling,
                                stored_values(to, scope_->precision()));
    return;
  }
  const std::int64_t channels = host.shape[1];
  const Values values = values_of(to, scope_->precision());
  if (channels == 1) {  // Rows are NHWC then.
    scope_->passes().from_bytes(host.shape, {channels}, bytes, host.scaling, values);
    return;
  }
  if (pixels_.size() < floats_of(host.shape)) pixels_ = memory_.allocate(floats_of(host.shape));
  const Values nhwc{pixels_.span().address(), host.shape.size(), scope_->precision()};
  scope_->passes().from_bytes(host.shape, {channels}, bytes, host.scaling, nhwc);
  scope_->passes().from_nhwc(host.shape, channels, nhwc, values);
}

}  // namespace flotilla
