// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/row_update.hpp"
#include "src/config/config.hpp"
#include "src/parameter_server/rows/pages.hpp"
#include "src/parameter_server/rows/row_index.hpp"

namespace flotilla {

/// The rows of an embedding table that a worker trains itself (server.mode = "geo"), by the rule of geo.cpp:
/// all that it has used so far, each with its optimizer state and the servers' values at its last pull.
///
/// Between two pushes a row is pulled before its first use, unless it was pulled with the last push, so that
/// it is never staler than dense values.
///
/// Memory: width · (2 + slots) · 4 bytes a row and about 24 for finding it. Allocates only for new rows, and
/// for batches and pushes larger than all before. For one thread.
class LocalRows {
 public:
  LocalRows(std::size_t width, const RowRule& rule);

  /// Finds the rows of a batch; missing ones are created.
  /// @param keys distinct
  /// @returns the keys to be pulled for take(); valid until the next batch
  std::span<const std::uint64_t> find(std::span<const std::uint64_t> keys);
  /// @param pulled (keys of find(), width): the servers' values
  void take(std::span<const float> pulled);
  /// @param values (keys of the batch, width)
  void read(std::span<float> values) const;
  /// One step of the rule for the rows of the batch. A gradient that is not finite changes no row.
  /// @param gradients (keys of the batch, width)
  /// @param step 1, 2, …
  void train(std::span<const float> gradients, float learning_rate, std::int64_t step);

  /// Keys of the rows that were trained since the last push; valid until apply_pulled().
  std::span<const std::uint64_t> trained() const { return trained_keys_; }
  /// The changes of these rows since the last push, times `share`, which count as pushed from now on. @param
  /// to (trained, width)
  void push(float share, std::span<float> to);
  /// To be called after the push. @param pulled (trained, width): the servers' values now
  void apply_pulled(std::span<const float> pulled);
  /// From now on every row is pulled before it is used again.
  void pull_all_again();

  /// For checkpoints: all keys, ascending; and the arrays of a row.
  std::vector<std::uint64_t> sorted_keys() const;
  std::vector<std::string> slot_names() const;
  std::size_t width() const { return width_; }
  /// @param array 0: values; 1, 2, …: the optimizer's slots in the order of slot_names(). @param to (keys,
  /// width)
  void read(std::span<const std::uint64_t> keys, std::size_t array, std::span<float> to) const;
  /// Sets rows; missing ones are created. They are pulled before they are used.
  /// @param arrays values, then the slots in the order of slot_names(): each (keys, width)
  void write(std::span<const std::uint64_t> keys, std::span<const std::span<const float>> arrays);

  std::size_t rows() const { return slabs_.size(); }
  std::size_t memory_bytes() const;
  std::int64_t not_finite() const { return not_finite_; }  ///< Gradients so far that were not finite

 private:
  std::uint32_t find_or_add(std::uint64_t key);
  /// The servers' values, which are the last of a row.
  float* pulled_of(float* row) const { return row + slabs_.row_floats() - width_; }
  void follow_row(std::uint32_t number, const float* pulled);

  std::size_t width_;
  RowRule rule_;
  RowIndex index_;
  RowSlabs slabs_;
  /// Mark of each row: 2 · period if it was pulled in that period, 1 more if it was trained too.
  std::vector<std::uint32_t> marks_;
  std::uint32_t period_ = 1;
  std::vector<std::uint32_t> batch_;  ///< Row numbers of the current batch
  std::vector<std::uint64_t> batch_keys_;
  std::vector<std::uint32_t> missing_;  ///< Row numbers to be pulled
  std::vector<std::uint64_t> missing_keys_;
  std::vector<std::uint32_t> trained_;
  std::vector<std::uint64_t> trained_keys_;
  std::vector<float*> updated_;
  std::vector<const float*> gradients_;
  std::int64_t not_finite_ = 0;
};

/// The memory of rows on each worker, for the start report: "84 bytes a row …".
std::string describe_local_rows(const Config& config, std::int64_t slots_of_sample);

}  // namespace flotilla
