// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/checkpoint/checkpoint.hpp"
#include "src/checkpoint/file_index.hpp"
#include "src/checkpoint/write_checkpoint.hpp"
#include "src/files/checksum.hpp"
#include "src/files/file.hpp"

namespace flotilla {

// Tables of rows by 64-bit key in HDF5: /rows/NAME/keys (rows), ascending; /rows/NAME/values (rows, width);
// the optimizer's state /rows/NAME/SLOT, as the values. Written and read in pieces, so that no process holds
// a table twice.

/// A table of rows in a file.
struct RowTable {
  std::string name;
  std::int64_t width = 0;            ///< Floats of a row, at least 1
  std::vector<std::string> slots{};  ///< Names of the optimizer's slots: "momentum"
  std::int64_t rows = 0;

  static void pass(auto& own, auto& fields) { fields(own.name, own.width, own.slots, own.rows); }
};

/// The datasets of a table, in the order of a file.
std::vector<CheckpointTensor> datasets_of(const RowTable& table);

/// Some rows of a table that follow each other.
struct RowPiece {
  std::span<const std::uint64_t> keys{};
  std::span<const float> values{};                  ///< (keys, width)
  std::span<const std::span<const float>> slots{};  ///< In the table's order, each (keys, width)
};

/// A source of rows, table by table.
class TableSource {
 public:
  virtual ~TableSource() = default;
  virtual const std::vector<RowTable>& tables() const = 0;
  /// The next rows of a table in the order of their keys, about 1 MiB, valid until the next call; none at its
  /// end.
  virtual RowPiece next(std::size_t table) = 0;
};

/// Writes a file of rows under a temporary name, renamed when it is complete, as NewFile.
class RowFileWriter {
 public:
  /// Makes the file under a temporary name.
  /// @param others further tensors, which write_tensor takes. @throws UserError.
  RowFileWriter(std::string path, std::vector<RowTable> tables,
                std::span<const CheckpointTensor> others = {});

  const std::vector<RowTable>& tables() const { return tables_; }
  /// Appends rows to a table; keys ascend, from piece to piece too. Keeps no reference to the piece. @throws
  /// UserError.
  void write(std::size_t table, const RowPiece& piece);
  void write_tensor(std::size_t other, std::span<const float> values) { file_.write(other, values); }
  /// When all rows of all tables are written: verifies the file. @returns its entry in the checkpoint.
  /// @throws UserError.
  CheckpointPart complete(const CheckpointState& state) { return file_.complete(&state); }
  void give_name() { file_.give_name(); }  ///< Renames it, replacing an older file. @throws UserError.

 private:
  std::vector<RowTable> tables_;
  std::vector<std::size_t>
      keys_of_;  ///< Each table's, among the datasets of the file; values and slots follow
  std::vector<std::optional<std::uint64_t>> last_keys_;
  NewFile file_;
};

/// Reads a part of a server, an exported model or a file of another program. Checksums are compared when the
/// end of a table is reached: a caller that must not use rows of a damaged file calls part_damage() first,
/// which reads the whole file.
class RowFileReader : public TableSource {
 public:
  /// Verifies everything but the values. @throws UserError naming the file and what is wrong.
  explicit RowFileReader(const std::string& path);
  RowFileReader(const RowFileReader&) = delete;
  RowFileReader& operator=(const RowFileReader&) = delete;

  const std::string& path() const { return index_.path; }
  const CheckpointState& state() const { return index_.state; }
  /// The checksum of the state and the list of tensors: CheckpointPart::checksum.
  std::uint64_t checksum() const { return index_.checksum.value_or(0); }
  const std::vector<RowTable>& tables() const override { return tables_; }
  /// @throws UserError naming file and dataset if a checksum does not match, or keys do not ascend.
  RowPiece next(std::size_t table) override;

 private:
  /// The progress of reading a table.
  struct TableProgress {
    std::vector<const StoredTensor*> datasets{};  ///< Keys, values, slots
    std::vector<Checksum> sums{};                 ///< Checksum of each part
    std::int64_t rows = 0;
    std::optional<std::uint64_t> last_key{};
  };
  void take(const StoredTensor& tensor);
  void complete(RowTable& table, TableProgress& progress) const;
  void read(TableProgress& progress, std::size_t dataset, std::span<std::byte> to);
  void compare_checksums(const TableProgress& progress) const;

  FileIndex index_;
  File file_;
  std::vector<RowTable> tables_;
  std::vector<TableProgress> progress_;
  std::vector<std::uint64_t> keys_;
  std::vector<float> floats_;  ///< Values, then slot after slot
  std::vector<std::span<const float>> slots_;
};

/// Rows of a piece of about 1 MiB.
std::int64_t rows_of_piece(const RowTable& table);

/// Opens a server's part of a checkpoint. @throws UserError if it is missing, damaged (its values are not
/// checked), or was written by another save.
std::unique_ptr<RowFileReader> open_server_part(const std::string& checkpoint, const CheckpointPart& part);

/// Opens the files with the rows of a model: `file` itself if it holds some, as exported models do, and the
/// parts of servers that its state names. Empty for a model without sparse tables. @throws UserError.
std::vector<std::unique_ptr<RowFileReader>> open_rows(const std::string& file, const CheckpointState& state);

/// The rows of several files in the order of their keys, without the optimizer's state; 1 MiB of each file at
/// a time. A table must be read to its end before the next one.
class MergedRows : public TableSource {
 public:
  /// @throws UserError if the files do not hold the same tables.
  explicit MergedRows(std::vector<std::unique_ptr<RowFileReader>> parts);

  const std::vector<RowTable>& tables() const override { return tables_; }
  /// @throws UserError as RowFileReader::next, and if two files hold the same row.
  RowPiece next(std::size_t table) override;

 private:
  /// The position in a file.
  struct Front {
    RowPiece piece{};
    std::size_t row = 0;
  };
  void begin(std::size_t table);
  std::uint64_t key_of(std::size_t part) const;
  void fetch(std::size_t part);
  void append_smallest();

  std::vector<std::unique_ptr<RowFileReader>> parts_;
  std::vector<RowTable> tables_;
  std::optional<std::size_t> table_;  ///< The table that is being read
  std::vector<Front> fronts_;
  std::vector<std::size_t> heap_;  ///< Parts with rows left; that with the smallest key in front
  std::vector<std::uint64_t> keys_;
  std::vector<float> values_;
  std::optional<std::uint64_t> last_key_;
};

}  // namespace flotilla
