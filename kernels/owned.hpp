// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>

namespace flotilla {

template <auto destroy>
struct Destroy {
  void operator()(auto* handle) const noexcept { destroy(handle); }
};

/// A handle of a C library, given back with `destroy` at the end of its scope: Owned<cudaStream_t,
/// cudaStreamDestroy>. Move-only, null after a move, as large as a pointer.
template <class Handle, auto destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;

}  // namespace flotilla
