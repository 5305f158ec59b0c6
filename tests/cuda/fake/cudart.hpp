// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>

namespace flotilla::fake {

/// Allocations, streams, events, pools and graphs that the program has not given back.
std::size_t left_over();

/// What a kernel or a library's call does, when the stream's turn comes; or when the graph is launched that
/// is captured from the stream.
void in_stream(cudaStream_t stream, std::function<void()> work);
/// Kernels and calls handed out, each counted for itself, in graphs and outside of them.
struct Done {
  std::int64_t alone = 0;
  std::int64_t in_graphs = 0;
  std::int64_t graphs = 0;  ///< Launched
  std::int64_t waits = 0;   ///< Calls in which a thread waits for a stream or an event
};
Done done();

/// The next captures end without a graph.
void spoil_captures(int count);

}  // namespace flotilla::fake
