// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mpi/core/communicator.hpp"
#include "mpi/core/wire.hpp"
#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/config/config.hpp"
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
  /// Writes the rows that a request pulls into `reply`, whose size must be theirs.
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

/// Writes all rows with their optimizer's state as a server's part of a checkpoint, piece by piece, and
/// verifies it. The part is renamed once those of all servers are complete: it may replace one that an
/// earlier checkpoint of the same step still needs.
class RowSave {
 public:
  /// @throws UserError
  RowSave(RowStore& rows, const std::string& path, const CheckpointState& state);
  const CheckpointPart& part() const { return part_; }
  void give_name() { file_.give_name(); }  ///< @throws UserError

 private:
  RowFileWriter file_;
  CheckpointPart part_;
};

enum class RowState { read, left_out };

/// The rows of a file that one rank reads and tells the others.
class SharedRows final : public TableSource {
 public:
  /// Collective, as next(). @param file on the rank `reader`, null on the others
  /// @param state of the optimizer
  SharedRows(std::unique_ptr<RowFileReader> file, int reader, const mpi::Communicator& ranks, RowState state);
  const std::vector<RowTable>& tables() const override { return tables_; }
  /// @throws UserError on all ranks, as RowFileReader::next
  RowPiece next(std::size_t table) override;

 private:
  struct Piece {
    std::vector<std::uint64_t> keys{};
    std::vector<float> values{};
    std::vector<std::vector<float>> slots{};
    std::string mistake{};  ///< In the file, of which all ranks learn
    static void pass(auto& own, auto& fields) { fields(own.keys, own.values, own.slots, own.mistake); }
  };

  std::unique_ptr<RowFileReader> file_;
  const mpi::Communicator& ranks_;
  int reader_;
  std::vector<RowTable> tables_;
  Piece piece_;
  std::vector<std::span<const float>> slots_;
};

/// Loads those rows of a file that are wanted: from a server's part of a checkpoint, of any number of
/// servers, or from an exported model, whose rows have no state. Rows of a damaged file may be loaded before
/// the damage is found.
/// @param path of the file  @throws UserError naming a file that is damaged or of another model
void load_rows(RowStore& rows, TableSource& file, const std::string& path,
               const std::function<bool(std::uint64_t key)>& is_wanted);

}  // namespace flotilla
