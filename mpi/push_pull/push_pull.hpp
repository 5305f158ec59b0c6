// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

// Point-to-point messages between workers and servers. A worker sends each server a request, followed, when
// it pushes, by all its values for that server; when it pulls, the server sends all its values back. Values
// are sent in the order of the arena, in messages of a fixed number of them (PushPullParts), so that a server
// may answer the first while the last are still coming. Any request but a farewell may carry a payload out,
// and ask for one back: bytes that mpi/ does not read, as many as the request says. Where worker and server
// share memory (PushPullWindow), the values of a push-pull stay there, and messages name their offset: each
// side copies once. Only the constructors are collective, and the destructors where memory is shared.

enum class RequestKind : std::int32_t {
  pull,
  push_pull,
  rows,     ///< No values, only payloads
  command,  ///< No values, only payloads that are no part of training, such as saving
  pause,    ///< No values: the worker will not push for a while, and no other is to wait for it
  farewell
};

/// Values of one server at most, and bytes of a payload: MPI 3 counts with int.
inline constexpr std::size_t largest_share = std::size_t{1} << 30;
inline constexpr std::size_t largest_payload = (std::size_t{1} << 31) - 1;

/// The head of a request, sent as it lies in memory.
struct PushPullRequest {
  RequestKind kind = RequestKind::push_pull;
  std::int32_t batches = 0;        ///< Batches that are merged into the pushed values
  std::int64_t step = 0;           ///< Step of the worker
  std::int64_t array = 0;          ///< Pull: which of the server's arrays; 0: the values that pushes change
  double learning_rate = 0.0;      ///< Push
  std::int64_t payload_bytes = 0;  ///< Length of the payload that follows
  std::int64_t reply_bytes = 0;    ///< Length of the payload that the worker expects back
  std::int64_t window_at = -1;     ///< Offset of the values in the worker's part of the window; −1: none

  bool pushes() const { return kind == RequestKind::push_pull; }
  bool pulls() const { return kind == RequestKind::pull || kind == RequestKind::push_pull; }
  bool wants_answer() const { return pulls() || reply_bytes > 0; }
  /// Whether a worker may have sent it.
  bool is_valid() const {
    constexpr auto most = static_cast<std::int64_t>(largest_payload);
    return RequestKind::pull <= kind && kind <= RequestKind::farewell && 0 <= payload_bytes &&
           payload_bytes <= most && 0 <= reply_bytes && reply_bytes <= most;
  }
};

/// Bytes that are sent beside the values of one server. Both spans must stay valid until the exchange is
/// complete.
struct Payload {
  std::span<const std::byte> out{};
  std::span<std::byte> back{};
};

/// The format of values in messages. Gradients lose less by rounding than parameters do.
struct PushPullWires {
  Wire push = Wire::float32;
  Wire pull = Wire::float32;
  bool shared_memory = false;   ///< Within a host, the values of push-pulls
  std::size_t part_values = 0;  ///< Values of a message, both ways; 0: all of a server's in one
  /// A push-pull is answered once all workers have begun theirs: it is announced as their collective call.
  bool together = false;
};

inline constexpr int request_tag = 1;
inline constexpr int push_tag = 2;
inline constexpr int pull_tag = 3;
inline constexpr int payload_tag = 4;
inline constexpr int reply_tag = 5;

}  // namespace flotilla::mpi
