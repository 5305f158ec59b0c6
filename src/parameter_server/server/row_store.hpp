// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/config/config.hpp"
#include "src/parameter_server/server/row_tables.hpp"

namespace flotilla {

/// An embedding table of a model.
struct TableSpec {
  std::string name;  ///< In checkpoints
  std::size_t width = 0;
};

/// The tables of a deck's model; none without embeddings.
std::vector<TableSpec> tables_of(const ModelConfig& model);

/// One server's shard of the tables of a deck's model.
class RowStore {
 public:
  explicit RowStore(const Config& config);

  bool empty() const { return specs_.empty(); }
  const std::vector<TableSpec>& specs() const { return specs_; }
  /// Names of the optimizer's slots of every row, as in checkpoints.
  const std::vector<std::string>& slot_names() const { return slot_names_; }
  SparseTable& table(std::size_t number) { return tables_[number]; }

  /// One update with the gradients in these requests, as RowTables::apply().
  void push(std::span<const std::span<const std::byte>> requests, double learning_rate, double gradient_scale,
            std::int64_t step);
  void answer(std::span<const std::byte> request, std::span<std::byte> reply) {
    tables_.answer(request, reply);
  }
  /// Lines about the whole run: rows, memory, and counts of gradients by outcome.
  std::vector<std::string> report();

 private:
  std::vector<TableSpec> specs_;
  std::vector<std::string> slot_names_;
  RowTables tables_;
  PushCounts counts_;
};

}  // namespace flotilla
