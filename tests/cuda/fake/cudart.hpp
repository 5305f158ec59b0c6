// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace flotilla::fake {

/// Whether all of it was allocated on the fake GPU, at one go.
bool is_device_memory(const void* memory, std::size_t bytes);
/// Allocations, streams, events and pools that nobody has given back.
std::size_t left_over();

/// What a kernel or a library's call does: now, or when the graph is launched that this thread captures.
void in_stream(std::function<void()> work);
/// Kernels and calls done, each counted for itself, in graphs and outside of them.
struct Done {
  std::int64_t alone = 0;
  std::int64_t in_graphs = 0;
  std::int64_t graphs = 0;  ///< Launched
};
Done done();

}  // namespace flotilla::fake
