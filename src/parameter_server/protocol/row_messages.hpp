// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mpi/core/wire.hpp"

namespace flotilla {

// Payloads between workers and servers about rows of several tables. A request is one section after another:
// a head of 16 bytes (table, operation: 32 bits each; rows: 64 bits), the keys (8 bytes each) and, for
// operations that send values, those: (rows, width) in the wire's type, padded to a multiple of 8 bytes. The
// reply holds the requested rows, (rows, width) in the wire's type, section after section without padding.
// All numbers are in the byte order of the machine.

enum class RowOperation : std::uint32_t {
  pull,                 ///< Returns rows; missing ones are created.
  pull_without_insert,  ///< Returns rows; missing ones have their initial values and are not created.
  push,                 ///< Sends gradients.
  add                   ///< Sends differences that are added to rows.
};

inline bool has_values(RowOperation operation) {
  return operation == RowOperation::push || operation == RowOperation::add;
}

struct RowSection {
  std::size_t table = 0;
  RowOperation operation = RowOperation::pull;
  std::span<const std::uint64_t> keys{};
  std::span<const std::byte> values{};  ///< (keys, width) of a push or add, encoded
};

/// Writes a request. Its memory is kept from request to request.
class RowRequest {
 public:
  /// The buffers of a section, to be filled before the next one is added.
  struct Room {
    std::span<std::uint64_t> keys;
    std::span<std::byte> values;  ///< Encoded values
  };

  explicit RowRequest(mpi::Wire wire = mpi::Wire::float32) : wire_(wire) {}

  void clear() { used_ = 0; }
  Room add_section(std::size_t table, RowOperation operation, std::size_t rows, std::size_t width);
  std::span<const std::byte> bytes() const { return std::span(buffer_).first(used_); }

 private:
  mpi::Wire wire_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
};

/// Reads a request section by section; sections point into it.
class RowRequestReader {
 public:
  /// @param request as a payload buffer has it, aligned to 8 bytes
  /// @param widths of the tables; kept by reference
  /// @param wire that it was written for
  RowRequestReader(std::span<const std::byte> request, std::span<const std::size_t> widths,
                   mpi::Wire wire = mpi::Wire::float32);
  /// The next section; none after the last. @throws InternalError if the request is malformed
  std::optional<RowSection> next();

 private:
  std::span<const std::byte> rest_;
  std::span<const std::size_t> widths_;
  mpi::Wire wire_;
};

}  // namespace flotilla
