// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

// How workers and servers talk, point to point. A worker sends each server a request, and behind it, when it
// pushes, all its values for that server; when it pulls, all the server's values come back. Values travel in
// the order of the arena, in messages of a fixed number of them (PushPullParts), so that a server may answer
// the first while the last are still coming. Any request but a farewell may carry a payload out, and ask for
// one back: bytes that mpi/ does not read, as many as the request says. Where worker and server share memory
// (PushPullWindow), the values of a push-pull stay there, and messages say where: each side copies once.
// Nothing here is collective after the constructors, but the destructors are where memory is shared.

enum class RequestKind : std::int32_t {
  push,
  pull,
  push_pull,
  rows,     ///< No values, only payloads
  command,  ///< The same, for what is no part of training
  pause,    ///< Nothing: the worker will not push for a while, nobody is to wait for it
  farewell
};

/// What precedes values on the wire, as it lies in memory.
struct PushPullRequest {
  RequestKind kind = RequestKind::push;
  std::int32_t batches = 0;        ///< That were merged into the values pushed
  std::int64_t step = 0;           ///< The worker's own
  std::int64_t array = 0;          ///< Pull: which of the server's arrays; 0: the values that pushes change
  double learning_rate = 0.0;      ///< Push
  std::int64_t payload_bytes = 0;  ///< That come with it
  std::int64_t reply_bytes = 0;    ///< That the worker expects back as payload
  std::int64_t window_at = -1;     ///< Push-pull: where its values lie in the worker's part of the window

  bool pushes() const { return kind == RequestKind::push || kind == RequestKind::push_pull; }
  bool pulls() const { return kind == RequestKind::pull || kind == RequestKind::push_pull; }
  bool wants_answer() const { return pulls() || reply_bytes > 0; }
};

/// What goes beside the values of one server. Both stay where they are until the exchange is over.
struct Payload {
  std::span<const std::byte> out{};
  std::span<std::byte> back{};
};

/// How values travel. Gradients lose less by rounding than parameters do.
struct PushPullWires {
  Wire push = Wire::float32;
  Wire pull = Wire::float32;
  bool shared_memory = false;   ///< Within a host, the values of push-pulls
  std::size_t part_values = 0;  ///< Of a message, both ways; 0: all of a server's go in one
  /// A push-pull is answered once all workers have begun theirs: it is announced as their collective call.
  bool together = false;
};

/// Values of one server at most, and bytes of a payload: MPI 3 counts with int.
inline constexpr std::size_t largest_share = std::size_t{1} << 30;
inline constexpr std::size_t largest_payload = (std::size_t{1} << 31) - 1;

inline constexpr int request_tag = 1;
inline constexpr int push_tag = 2;
inline constexpr int pull_tag = 3;
inline constexpr int payload_tag = 4;
inline constexpr int reply_tag = 5;

}  // namespace flotilla::mpi
