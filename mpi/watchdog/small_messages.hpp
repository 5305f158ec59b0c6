// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "mpi/core/communicator.hpp"

namespace flotilla::mpi {

/// Messages of fixed size between ranks, of which no rank ever waits for one: trivially copyable values below
/// 4 KB, the least that MPI libraries send without waiting for the receiver. One thread at a time. Private to
/// mpi/.
class SmallMessages {
 public:
  /// @param ranks must outlive this
  explicit SmallMessages(const Communicator& ranks) : ranks_(ranks) {}
  SmallMessages(const SmallMessages&) = delete;
  SmallMessages& operator=(const SmallMessages&) = delete;
  /// Waits for nothing: the memory of messages that are still under way stays until the process ends.
  ~SmallMessages();

  /// Returns at once. A message to a rank that has ended stays in memory.
  template <class T>
  void send(const T& value, int to, int tag) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) < 4000);
    send_bytes(std::as_bytes(std::span(&value, 1)), to, tag);
  }
  /// The next message of that tag, if one has come: its sender and content.
  template <class T>
  std::optional<std::pair<int, T>> receive(int tag) {
    T value{};
    const int from = receive_bytes(std::as_writable_bytes(std::span(&value, 1)), tag);
    return from < 0 ? std::nullopt : std::optional(std::pair(from, value));
  }
  /// Frees the memory of messages that were sent, and lets MPI progress the others.
  void release_sent();

 private:
  struct Sent {
    std::vector<std::byte> content;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void send_bytes(std::span<const std::byte> bytes, int to, int tag);
  int receive_bytes(std::span<std::byte> bytes, int tag);

  const Communicator& ranks_;
  std::deque<Sent> sent_;
};

}  // namespace flotilla::mpi
