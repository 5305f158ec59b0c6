// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/row_update.hpp"
#include "src/parameter_server/rows/pages.hpp"
#include "src/parameter_server/rows/row_index.hpp"

namespace flotilla {

enum class StartKind {
  zero,
  uniform,  ///< In [−scale, scale)
  normal    ///< Mean 0, standard deviation `scale`
};

/// The initial values of rows: a function of seed, key and column, independent of the number of servers and
/// of the order in which rows are created. Column j is value j of Random(seed, random_rows, key).
struct RowStart {
  StartKind kind = StartKind::uniform;
  float scale = 0.01F;
  std::uint64_t seed = 0;  ///< Different for each table
};

/// rows[i] ← the `width` initial values of the row of keys[i].
void start_rows(const RowStart& start, std::span<const std::uint64_t> keys, std::span<float* const> rows,
                std::size_t width);

/// Merges the gradients of one request by row: those of one row are added in their order. Memory is reused
/// from request to request.
class RowMerge {
 public:
  void begin(std::size_t width,
             std::size_t at_most);  ///< Forgets the last request; at most `at_most` gradients
  /// @param number of the row in its table
  /// @param gradient (width) must stay valid until begin()
  void add(std::uint32_t number, float* row, const float* gradient);
  /// Ends a request. Returns the number of gradients that were left out because their sums are not finite.
  std::size_t finish();

  std::span<float* const> rows() const { return rows_; }
  std::span<const float* const> gradients() const { return gradients_; }

 private:
  struct Seen {
    std::uint32_t request = 0;  ///< Request in which it was written
    std::uint32_t number = 0;
    std::uint32_t entry = 0;
  };
  struct Sum {
    std::uint32_t entry = 0;
    std::uint32_t terms = 0;
  };

  std::size_t width_ = 0;
  std::uint32_t request_ = 0;
  int shift_ = 0;           ///< Shift of a hash of 32 bits to an index of `seen_`
  std::vector<Seen> seen_;  ///< A hash table, at most half full
  std::vector<float*> rows_;
  std::vector<const float*> gradients_;
  std::vector<std::uint32_t> sum_of_;  ///< The sum of each entry, or `alone`
  std::vector<Sum> sums_;
  std::vector<float> values_;  ///< (sums, width)
};

struct SparseTableSpec {
  std::size_t width = 0;  ///< Floats of a row
  RowRule rule{};
  RowStart start{};
};

/// Gradients of rows, or differences that are added to them.
struct RowGradients {
  std::span<const std::uint64_t> keys{};
  std::span<const float> values{};  ///< (keys, width)
};

/// Counts of gradients by outcome. All but the first kind changed no row.
struct PushCounts {
  std::size_t updated = 0;
  std::size_t absent = 0;      ///< Their row does not exist.
  std::size_t not_finite = 0;  ///< They, or their sum over the request, hold NaN or an infinity.

  PushCounts& operator+=(const PushCounts& other) {
    updated += other.updated;
    absent += other.absent;
    not_finite += other.not_finite;
    return *this;
  }
};

/// One server's shard of an embedding table: rows of one width by 64-bit key, created when they are first
/// pulled, each with its optimizer state.
///
/// A push updates only the rows that it names; momentum, moments and weight decay of the others are not
/// applied. Adam's bias correction uses the table's step, not the number of updates of a row.
///
/// Memory: width · (1 + slots) · 4 bytes a row and about 20 for the index; at most what planned_bytes() says.
/// For one thread.
class SparseTable {
 public:
  explicit SparseTable(const SparseTableSpec& spec);

  std::size_t width() const { return spec_.width; }
  std::size_t slots() const { return spec_.rule.slots(); }  ///< Number of the optimizer's state arrays
  std::size_t rows() const { return slabs_.size(); }

  /// rows ← the rows of the keys; missing rows are created. (keys, width)
  void pull(std::span<const std::uint64_t> keys, std::span<float> rows);
  /// rows ← the rows of the keys, without adding any: a missing row is given its initial value. (keys, width)
  void pull_without_insert(std::span<const std::uint64_t> keys, std::span<float> rows) const;

  /// One step of the rule. Gradients of one row are added first, part after part, each in its order.
  /// @param step of the table: 1, 2, …
  PushCounts push(std::span<const RowGradients> parts, float learning_rate, float gradient_scale,
                  std::int64_t step);
  /// row ← row + values, without the rule.
  PushCounts add(const RowGradients& deltas);

  /// All keys, ascending: the order of checkpoints. 8 bytes a row for as long as the caller keeps them.
  std::vector<std::uint64_t> sorted_keys() const;
  /// Reads existing rows, as many at a time as the caller's buffers hold.
  /// @param values (keys, width)
  /// @param state none, or as many as values for each slot
  void read(std::span<const std::uint64_t> keys, std::span<float> values,
            std::span<const std::span<float>> state = {}) const;
  /// Sets rows; missing ones are created. Without `state` their state becomes zero. Sizes as in read().
  void write(std::span<const std::uint64_t> keys, std::span<const float> values,
             std::span<const std::span<const float>> state = {});

  std::size_t memory_bytes() const;  ///< Memory of rows and index

 private:
  class Search;
  static constexpr std::size_t batch = 64;  ///< Rows that are looked up, and prefetched, before they are used

  void make_rows(const Search& search, std::array<float*, batch>& rows);

  SparseTableSpec spec_;
  RowIndex index_;
  RowSlabs slabs_;
  RowMerge merge_;
};

/// Bytes that a table takes at most, while it grows too, if it is large (some 100,000 rows or more).
std::size_t planned_bytes(std::size_t rows, std::size_t width, std::size_t slots);

}  // namespace flotilla
