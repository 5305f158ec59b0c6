// SPDX-License-Identifier: Apache-2.0
#include "kernels/onednn/primitive_scope.hpp"

#include <omp.h>

namespace flotilla {

PrimitiveScope::PrimitiveScope(int threads, const HostMemory& memory)
    : threads_(threads),
      memory_(memory),
      engine_(made("dnnl::engine", [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); })),
      stream_(made("dnnl::stream", [this] { return dnnl::stream(engine_); })) {}

void PrimitiveScope::set_threads() const {
  omp_set_num_threads(threads_);
}

void PrimitiveScope::reserve(std::size_t bytes) {
  const std::size_t count = (bytes + sizeof(float) - 1) / sizeof(float);
  if (count <= scratch_.size()) return;
  scratch_ = Storage();  // before the larger one is allocated
  scratch_ = memory_.allocate(count);
  scratch_address_ = reinterpret_cast<std::byte*>(scratch_.span().address());
}

}  // namespace flotilla
