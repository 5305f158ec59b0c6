// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/cpu/primitive_scope.hpp"
#include "kernels/layers/conv2d.hpp"

/// The weights of convolutions as oneDNN sees them.
namespace flotilla {

/// The specification itself. @throws InternalError unless check_spec() accepts it
const Conv2dSpec& checked(const Conv2dSpec& spec);
/// (O,I,K,K), in groups (G,O/G,I/G,K,K).
dnnl::memory::dims weight_dims(const Conv2dSpec& spec);
/// Floats in plain order, (O,I/groups,K,K).
dnnl::memory::desc plain_weight(const Conv2dSpec& spec);
/// Values without padding.
std::int64_t plain_size(const Conv2dSpec& spec);

/// Host memory on both sides. For weights that are loaded and saved, not more: the reorder is made for the
/// call. @throws LibraryError
void copy_weight(const PrimitiveScope& scope, const dnnl::memory::desc& from_layout,
                 std::span<const float> from, const dnnl::memory::desc& to_layout, std::span<float> to);

}  // namespace flotilla
