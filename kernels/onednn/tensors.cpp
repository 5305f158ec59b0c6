// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/tensors.hpp"

#include <memory>
#include <variant>

#include "kernels/bfloat16_values.hpp"
#include "kernels/error.hpp"
#include "kernels/onednn/casts.hpp"
#include "kernels/plan_checks.hpp"
#include "kernels/threads.hpp"

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
  if (rounded_values_ != to.shape().size()) {
    rounded_values_ = to.shape().size();
    const auto threads = static_cast<int>(threads_for(threads_, rounded_values_));
    round_batch_ = make_rounding(std::make_shared<PrimitiveScope>(threads, memory_), rounded_values_);
  }
  round_batch_.run({values.data(), to.span().address()});
}

}  // namespace flotilla
