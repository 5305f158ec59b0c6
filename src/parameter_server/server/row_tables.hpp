// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mpi/core/wire.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"
#include "src/parameter_server/rows/sparse_table.hpp"

namespace flotilla {

/// All tables of one server, with the operations of requests (row_messages.hpp).
class RowTables {
 public:
  /// @param wire format of rows, gradients and differences in messages
  explicit RowTables(std::span<const SparseTableSpec> specs, mpi::Wire wire = mpi::Wire::float32);

  SparseTable& operator[](std::size_t table) { return tables_[table]; }
  std::size_t size() const { return tables_.size(); }

  /// Applies all pushes and adds of several workers' requests: one step of each table that is pushed to, with
  /// the gradients of a row added in the order of `requests`.
  /// @param step as in SparseTable::push
  PushCounts apply(std::span<const std::span<const std::byte>> requests, float learning_rate,
                   float gradient_scale, std::int64_t step);
  /// Writes the rows that a request pulls or peeks at into `reply`, whose size must be theirs.
  void answer(std::span<const std::byte> request, std::span<std::byte> reply);

 private:
  RowGradients gradients_of(const RowSection& section);

  std::vector<SparseTable> tables_;
  mpi::Wire wire_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<RowGradients>> parts_;  ///< By table
  std::vector<std::vector<float>> decoded_;       ///< Decoded values of sections with a half wire
  std::size_t used_ = 0;                          ///< Number of used entries of decoded_
  std::vector<float> rows_;                       ///< Rows to be encoded for a half wire
};

}  // namespace flotilla
