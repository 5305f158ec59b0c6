// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/tensors.hpp"

#include <variant>

#include "kernels/bfloat16_values.hpp"
#include "kernels/cpu/casts.hpp"
#include "kernels/error.hpp"
#include "kernels/plan_checks.hpp"

namespace flotilla {

std::size_t CpuTensors::floats_of(const Shape& shape) const {
  const std::size_t values = HostTensors::floats_of(shape);
  return is_half(precision_) ? (values + 1) / 2 : values;
}

void CpuTensors::download(const Tensor& from, std::span<float> host) {
  if (!is_half(precision_)) return HostTensors::download(from, host);
  const auto values = values_as<Bfloat16>(from);
  require(values.size() == host.size(), "download of ", values.size(), " into ", host.size(), " values");
  widen(threads_, from.shape().size(), values.address(), host.data());
}

bool CpuTensors::all_finite(const Tensor& x) {
  if (!is_half(precision_)) return HostTensors::all_finite(x);
  return flotilla::all_finite(x.shape().size(), values_as<Bfloat16>(x).address());
}

void CpuTensors::stage(const HostBatch& batch, Tensor& to) {
  if (!is_half(precision_)) return HostTensors::stage(batch, to);
  if (to.span().size() != floats_of(to.shape())) to = zeros(to.shape());
  if (const auto* const images = std::get_if<ByteImages>(&batch)) {
    check_bytes(*images, to);
    return scale_bytes(threads_, *images, values_as<Bfloat16>(to).address());
  }
  const std::span<float> values = batch_values(batch, to.shape());
  round_to_bfloat16(threads_, to.shape().size(), values.data(), values_as<Bfloat16>(to).address());
}

void CpuTensors::round(DeviceSpan<const float> from, HalfSpan to) {
  require(from.size() == to.size(), from.size(), " values rounded to ", to.size());
  round_to_bfloat16(threads_, static_cast<std::int64_t>(from.size()), from.address(),
                    reinterpret_cast<Bfloat16*>(to.address()));
}

}  // namespace flotilla
