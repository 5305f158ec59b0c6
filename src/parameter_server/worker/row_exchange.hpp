// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/push_pull/push_pull.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"

namespace flotilla {

/// A worker's side of the embedding tables: splits keys by server, and puts the rows that are returned in the
/// order of the keys. It makes payloads and reads them; PushPullWorker carries them, together with the dense
/// values or alone:
///
///     rows.begin(); rows.push(0, keys, gradients); rows.pull(0, next_keys, next_rows);
///     worker.start_push_pull({step, 1, rate}, from, to, rows.payloads()); worker.wait();
///     rows.finish();
///
/// A request's pushes precede its pulls on the servers, whatever their order here. Allocates only for
/// requests larger than all before.
class RowExchange {
 public:
  /// @param widths of the tables
  /// @param wire format of gradients, differences and pulled rows in messages
  RowExchange(std::vector<std::size_t> widths, int servers, mpi::Wire wire = mpi::Wire::float32);

  void begin();  ///< Starts a new request.
  /// @param keys may repeat, may be empty
  /// @param rows (keys, width), filled by finish(); keys and rows must stay valid until then
  void pull(std::size_t table, std::span<const std::uint64_t> keys, std::span<float> rows);
  void pull_without_insert(std::size_t table, std::span<const std::uint64_t> keys, std::span<float> rows);
  /// @param gradients (keys, width), copied
  void push(std::size_t table, std::span<const std::uint64_t> keys, std::span<const float> gradients);
  void add(std::size_t table, std::span<const std::uint64_t> keys, std::span<const float> deltas);

  /// One for each server, valid until begin().
  /// @throws UserError if one is larger than a message may be
  std::span<const mpi::Payload> payloads();
  void finish();  ///< To be called after the exchange: copies rows to the pulls' buffers.

 private:
  struct Server {
    RowRequest request;
    std::size_t rows = 0;               ///< Rows of the section that is being written
    std::uint64_t* next_key = nullptr;  ///< Address at which its next key is written
    std::byte* next_values = nullptr;
    std::size_t expected = 0;      ///< Bytes of the reply
    std::vector<std::byte> reply;  ///< Buffer of the reply, at least as long
    const std::byte* next_row = nullptr;
  };
  struct Wanted {
    std::size_t width = 0;
    std::span<float> rows{};
  };
  using Owners = std::vector<std::uint16_t>;  ///< The server of each key

  /// Adds a section to the requests of all servers that have rows of it; their servers to `owners`.
  void partition(RowOperation operation, std::size_t table, std::span<const std::uint64_t> keys,
                 std::span<const float> values, Owners& owners);
  void enqueue_push(RowOperation operation, std::size_t table, std::span<const std::uint64_t> keys,
                    std::span<const float> values);
  void enqueue_pull(RowOperation operation, std::size_t table, std::span<const std::uint64_t> keys,
                    std::span<float> rows);

  std::vector<std::size_t> widths_;
  mpi::Wire wire_;
  std::vector<Server> servers_;
  std::vector<Wanted> wanted_;
  Owners wanted_owners_;  ///< Owners of the keys of all pulls, one after another
  Owners sent_owners_;
  std::vector<mpi::Payload> payloads_;
};

}  // namespace flotilla
