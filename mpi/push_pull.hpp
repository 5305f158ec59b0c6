// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "mpi/wire.hpp"

namespace flotilla::mpi {

// How workers and servers talk, point to point. A worker sends each server a request, and behind it, when it
// pushes, one message with all its values for that server; when it pulls, one message with all the server's
// values comes back. Values travel in the order of the arena. Nothing here is collective after the
// constructors.

enum class RequestKind : std::int32_t { push, pull, push_pull, farewell };

/// What precedes values on the wire, as it lies in memory.
struct PushPullRequest {
  RequestKind kind = RequestKind::push;
  std::int32_t batches = 0;  ///< That were merged into the values pushed
  std::int64_t step = 0;     ///< The worker's own
  std::int64_t array = 0;    ///< Pull: which of the server's arrays; 0: the values that pushes change
  double learning_rate = 0.0;
};

/// What values travel as. Gradients lose less by rounding than parameters do.
struct PushPullWires {
  Wire push = Wire::float32;
  Wire pull = Wire::float32;
};

/// Values of one server at most: MPI 3 counts with int.
inline constexpr std::size_t largest_share = std::size_t{1} << 30;

inline constexpr int request_tag = 1;
inline constexpr int push_tag = 2;
inline constexpr int pull_tag = 3;

}  // namespace flotilla::mpi
