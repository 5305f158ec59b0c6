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

/// All tables of one server, and what requests (row_messages.hpp) make of them.
class RowTables {
 public:
  /// @param wire that rows, gradients and differences travel as
  explicit RowTables(std::span<const SparseTableSpec> specs, mpi::Wire wire = mpi::Wire::float32);

  SparseTable& operator[](std::size_t table) { return tables_[table]; }
  std::size_t size() const { return tables_.size(); }

  /// Applies all pushes and adds of several workers' requests: one step of each table that is pushed to, with
  /// the gradients of a row added in the order of `requests`.
  /// @param step as SparseTable::push has it
  PushCounts apply(std::span<const std::span<const std::byte>> requests, float learning_rate,
                   float gradient_scale, std::int64_t step);
  /// Writes the rows that a request pulls or peeks at into `reply`, which must be as long as they are.
  void answer(std::span<const std::byte> request, std::span<std::byte> reply);

 private:
  RowGradients gradients_of(const RowSection& section);

  std::vector<SparseTable> tables_;
  mpi::Wire wire_;
  std::vector<std::size_t> widths_;
  std::vector<std::vector<RowGradients>> parts_;  ///< By table
  std::vector<std::vector<float>> decoded_;       ///< Of sections that came over a half wire
  std::size_t used_ = 0;                          ///< Of those
  std::vector<float> rows_;                       ///< That go over one
};

}  // namespace flotilla
