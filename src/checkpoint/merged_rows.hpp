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
#include "src/checkpoint/row_file.hpp"

namespace flotilla {

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
  std::vector<std::size_t>
      heap_;  ///< Of the parts that have rows left; the one with the smallest key in front
  std::vector<std::uint64_t> keys_;
  std::vector<float> values_;
  std::optional<std::uint64_t> last_key_;
};

}  // namespace flotilla
