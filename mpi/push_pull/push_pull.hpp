// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/slices.hpp"
#include "mpi/core/wire.hpp"

namespace flotilla::mpi {

// Point-to-point messages between workers and servers. A worker sends each server a request, followed, when
// it pushes, by all its values for that server; when it pulls, the server sends all its values back. Values
// are sent in the order of the arena, in messages of a fixed number of them (PushPullParts), so that a server
// may answer the first while the last are still coming. Any request but a farewell may carry a payload out,
// and ask for one back: bytes that mpi/ does not read; the request gives their number. Where worker and
// server share memory (PushPullWindow), the values of a push-pull stay there, and messages name their offset:
// each side copies once. Only the constructors are collective, and the destructors where memory is shared.

enum class RequestKind : std::int32_t {
  pull,
  push_pull,
  rows,     ///< No values, only payloads
  command,  ///< No values, only payloads outside training, such as saving
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

/// Bytes that are sent in addition to the values of one server. Both spans must stay valid until the exchange
/// is complete.
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

/// The messages that carry the values of one server, and their progress. Both ends cut equally: all parts but
/// the last have `part_values`. At most `places` parts are in flight.
class PushPullParts {
 public:
  static constexpr std::size_t places = 8;

  /// @param part_values 0: all in one part
  explicit PushPullParts(std::size_t part_values = 0) : part_values_(part_values) {}

  /// Starts again with the first part. Zero values are one (empty) part.
  void start(std::size_t values) {
    values_ = values;
    begun_ = 0;
    over_ = 0;
    ahead_.fill(false);
  }

  std::size_t count() const {
    if (part_values_ == 0) return 1;
    return std::max<std::size_t>(1, (values_ + part_values_ - 1) / part_values_);
  }
  SliceBounds bounds(std::size_t part) const {
    if (part_values_ == 0) return {0, values_};
    return {std::min(values_, part * part_values_), std::min(values_, (part + 1) * part_values_)};
  }
  static std::size_t place_of(std::size_t part) { return part % places; }

  /// Whether the next part may be sent, given that the first `ready` values may.
  bool may_begin(std::size_t ready) const {
    return begun_ < count() && begun_ - over_ < places && bounds(begun_).end <= ready;
  }
  /// The index of the part to be sent now.
  std::size_t begin() { return begun_++; }
  bool all_begun() const { return begun_ == count(); }

  /// The part that is in flight at this place.
  std::size_t part_at(std::size_t place) const { return over_ + (place + places - place_of(over_)) % places; }
  /// The part at this place was received or sent.
  void end(std::size_t place) {
    ahead_[place] = true;
    while (over_ < begun_ && ahead_[place_of(over_)]) ahead_[place_of(over_++)] = false;
  }
  /// Values of the leading parts that are complete, without a gap.
  std::size_t over() const { return over_ == 0 ? 0 : bounds(over_ - 1).end; }
  bool all_over() const { return over_ == count(); }

 private:
  std::size_t part_values_;
  std::size_t values_ = 0;
  std::size_t begun_ = 0;
  std::size_t over_ = 0;
  std::array<bool, places> ahead_{};  ///< By place: complete, but a part before it is not
};

class SharedWindow;

/// Collective over `all`: what workers and servers talk on, a copy.
Communicator push_pull_copy(const Communicator& all);

/// The ranks of `all` on this host.
class HostRanks {
 public:
  explicit HostRanks(const Communicator& all);  ///< Collective.
  bool has(int rank) const;                     ///< @param rank in `all`
  const Communicator& communicator() const { return host_; }
  const std::vector<int>& ranks() const { return ranks_; }  ///< In `all`, ascending

 private:
  Communicator host_;
  std::vector<int> ranks_;
};

/// Memory that the ranks of a host share, addressed by their ranks in a larger group: a worker writes pushed
/// values into its own part and reads pulled values from a server's.
class PushPullWindow {
 public:
  /// Collective over `host`. @param bytes of this rank's part
  /// @throws UserError on all of them if the memory cannot be allocated, naming server.shared_memory
  PushPullWindow(const HostRanks& host, std::size_t bytes);
  PushPullWindow(PushPullWindow&&) = delete;
  ~PushPullWindow();  ///< Nothing while an exception is being thrown.

  std::span<std::byte> mine() const;
  /// To be called before a message that names an offset in the own part: the receiver then sees the data
  /// there.
  static void publish();
  /// The data that such a message names: `bytes` at offset `at` of the part of `rank`, of this host.
  std::span<const std::byte> announced(int rank, std::int64_t at, std::size_t bytes) const;

  /// Rounds up to whole pairs of cache lines, so that data of two writers share none.
  static std::size_t rounded(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

 private:
  std::vector<int> ranks_;
  std::unique_ptr<SharedWindow> window_;
};

}  // namespace flotilla::mpi
