// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/primitive_scope.hpp"

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
  grow(scratch_, bytes);
}

void PrimitiveScope::reserve_rows(std::size_t bytes) {
  grow(rows_, bytes);
}

void PrimitiveScope::grow(Scratch& scratch, std::size_t bytes) const {
  const std::size_t count = (bytes + sizeof(float) - 1) / sizeof(float);
  if (count <= scratch.storage.size()) return;
  scratch.storage = Storage();  // before the larger one is allocated
  scratch.storage = memory_.allocate(count);
  scratch.address = reinterpret_cast<std::byte*>(scratch.storage.span().address());
}

}  // namespace flotilla
