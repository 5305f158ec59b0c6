// SPDX-License-Identifier: Apache-2.0
#include "src/train/worker_state_source.hpp"

#include <algorithm>
#include <iterator>

#include "kernels/error.hpp"
#include "src/checkpoint/row_file.hpp"

namespace flotilla {

namespace {

/// The file's description of a worker's rows.
RowTable describe(const LocalRows& rows) {
  return {.name = "embeddings",
          .width = static_cast<std::int64_t>(rows.width()),
          .slots = rows.slot_names(),
          .rows = static_cast<std::int64_t>(rows.rows())};
}

}  // namespace

WorkerStateSource::WorkerStateSource(const Network& network, std::span<const StateArray> arrays,
                                     const LocalRows* rows)
    : arrays_(network, arrays), rows_(rows), tensors_(arrays_.tensors().begin(), arrays_.tensors().end()) {}

void WorkerStateSource::take(std::span<const StateArray> arrays) {
  arrays_.take(arrays);
  if (rows_ != nullptr) take_rows();
}

void WorkerStateSource::take_rows() {
  keys_ = rows_->sorted_keys();
  const RowTable table = describe(*rows_);
  row_arrays_.resize(1 + table.slots.size());
  for (std::size_t i = 0; i < row_arrays_.size(); ++i) {
    row_arrays_[i].resize(keys_.size() * rows_->width());
    rows_->read(keys_, i, row_arrays_[i]);
  }
  tensors_.assign(arrays_.tensors().begin(), arrays_.tensors().end());
  std::ranges::copy(datasets_of(table), std::back_inserter(tensors_));
}

std::span<const float> WorkerStateSource::values(std::size_t tensor) {
  const std::size_t arrays = arrays_.tensors().size();
  if (tensor < arrays) return arrays_.values(tensor);
  require(tensor > arrays, "keys of rows are no values");
  return row_arrays_[tensor - arrays - 1];
}

std::span<const std::byte> WorkerStateSource::bytes(std::size_t tensor) {
  if (tensor == arrays_.tensors().size()) return std::as_bytes(std::span(keys_));
  return std::as_bytes(values(tensor));
}

void restore_rows(const std::string& path, LocalRows& rows) {
  RowFileReader file(path);
  const RowTable expected = describe(rows);
  const auto& tables = file.tables();
  if (tables.size() != 1 || tables[0].name != expected.name || tables[0].width != expected.width ||
      tables[0].slots != expected.slots)
    throw UserError(
        cat("'", path, "' does not hold the rows that a worker of this model and optimizer keeps"));
  std::vector<std::span<const float>> arrays;
  for (RowPiece piece = file.next(0); !piece.keys.empty(); piece = file.next(0)) {
    arrays.assign(1, piece.values);
    arrays.insert(arrays.end(), piece.slots.begin(), piece.slots.end());
    rows.write(piece.keys, arrays);
  }
}

}  // namespace flotilla
