// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/native_precisions.hpp"

#include <oneapi/dnnl/dnnl.h>

#include "kernels/cpu/device.hpp"
#include "kernels/error.hpp"
#include "kernels/processor/processor.hpp"

namespace flotilla {

namespace {

NativePrecisions ask() {
  const auto has = [isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa())](dnnl_cpu_isa_t bits) {
    return (isa & static_cast<unsigned>(bits)) == static_cast<unsigned>(bits);
  };
  NativePrecisions native{.float32 = "less than AVX2", .bfloat16 = ""};
  if (has(dnnl_cpu_isa_avx2)) native.float32 = "AVX2";
  if (has(dnnl_cpu_isa_avx512_core)) native.float32 = "AVX-512";
  if (has(dnnl_cpu_isa_avx512_core_bf16)) native.bfloat16 = "AVX512_BF16";
  if (has(dnnl_cpu_isa_avx512_core_amx)) native.bfloat16 = "AMX";
  return native;
}

}  // namespace

const NativePrecisions& native_precisions() {
  static const NativePrecisions native = ask();
  return native;
}

bool is_native(Precision precision) {
  if (precision == Precision::bfloat16) return !native_precisions().bfloat16.empty();
  return precision == Precision::float32;
}

bool is_faster_in_bfloat16() {
  const std::string& by = native_precisions().bfloat16;
  return by == "AMX" || (!by.empty() && is_amd());
}

void require_native(Precision precision) {
  if (is_native(precision)) return;
  if (precision == Precision::float16)
    throw UserError(
        cat("device.precision = \"float16\" needs device.kind = \"cuda\" or \"reference\": \"cpu\" "
            "computes in float32 and, where the processor can, in bfloat16 (oneDNN ",
            onednn_version(), ")"));
  throw UserError(
      cat("device.precision = \"bfloat16\" needs a processor with AMX or AVX512_BF16, and oneDNN ",
          onednn_version(), " finds ", native_precisions().float32,
          " on this one: use \"float32\", or \"auto\""));
}

}  // namespace flotilla
