// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace flotilla::fake {

/// Whether all of it was allocated on the fake GPU, at one go.
bool is_device_memory(const void* memory, std::size_t bytes);
/// Allocations, streams, events and pools that nobody has given back.
std::size_t left_over();

}  // namespace flotilla::fake
