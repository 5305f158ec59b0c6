// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/rows/sparse_table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/error.hpp"
#include "kernels/random.hpp"
#include "kernels/row_update.hpp"

namespace flotilla {

void start_rows(const RowStart& start, std::span<const std::uint64_t> keys, std::span<float* const> rows,
                std::size_t width) {
  switch (start.kind) {
    case StartKind::zero:
      for (float* const row : rows) std::fill_n(row, width, 0.0F);
      return;
    case StartKind::uniform:
      fill_streams(start.seed, random_rows, keys, rows, width);
      for (float* const row : rows)
        for (std::size_t i = 0; i < width; ++i) row[i] = start.scale * (2.0F * row[i] - 1.0F);
      return;
    case StartKind::normal:
      for (std::size_t row = 0; row < rows.size(); ++row) {
        Random random(start.seed, random_rows, keys[row]);
        for (std::size_t i = 0; i < width; ++i)
          rows[row][i] = static_cast<float>(static_cast<double>(start.scale) * random.normal());
      }
  }
}

namespace {

constexpr std::uint32_t alone = 0xFFFFFFFFU;

constexpr std::size_t line_floats = 16;

void prefetch(const float* row, std::size_t floats) {
  for (std::size_t i = 0; i < floats; i += line_floats) __builtin_prefetch(row + i);
}

void copy_row(const float* from, float* to, std::size_t width) {
  std::memcpy(to, from, width * sizeof(float));
}

}  // namespace

void RowMerge::begin(std::size_t width, std::size_t at_most) {
  width_ = width;
  rows_.clear();
  gradients_.clear();
  sum_of_.clear();
  sums_.clear();
  values_.clear();
  const std::size_t places = std::bit_ceil(std::max<std::size_t>(2 * at_most, 16));
  if (places > seen_.size()) {
    seen_.assign(places, {});
    request_ = 0;
  }
  shift_ = 33 - static_cast<int>(std::bit_width(seen_.size()));
  if (++request_ == 0) {
    std::ranges::fill(seen_, Seen{});
    request_ = 1;
  }
}

void RowMerge::add(std::uint32_t number, float* row, const float* gradient) {
  // Numbers follow one another: a multiplication (Knuth's) scatters them.
  std::size_t place = shift_ < 32 ? (number * 2654435769U) >> shift_ : 0;
  while (seen_[place].request == request_ && seen_[place].number != number)
    if (++place == seen_.size()) place = 0;
  Seen& seen = seen_[place];
  if (seen.request != request_) {
    seen = {.request = request_, .number = number, .entry = static_cast<std::uint32_t>(rows_.size())};
    rows_.push_back(row);
    gradients_.push_back(gradient);
    sum_of_.push_back(alone);
    return;
  }
  std::uint32_t& sum = sum_of_[seen.entry];
  if (sum == alone) {
    sum = static_cast<std::uint32_t>(sums_.size());
    sums_.push_back({.entry = seen.entry, .terms = 1});
    const float* const first = gradients_[seen.entry];
    values_.insert(values_.end(), first, first + width_);
  }
  ++sums_[sum].terms;
  float* const to = values_.data() + sum * width_;
  for (std::size_t i = 0; i < width_; ++i) to[i] += gradient[i];
}

std::size_t RowMerge::finish() {
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    const float* const values = values_.data() + i * width_;
    gradients_[sum.entry] = finite({values, width_}) ? values : nullptr;
    if (gradients_[sum.entry] == nullptr) left_out += sum.terms;
  }
  if (left_out > 0) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (gradients_[i] == nullptr) continue;
      rows_[kept] = rows_[i];
      gradients_[kept++] = gradients_[i];
    }
    rows_.resize(kept);
    gradients_.resize(kept);
  }
  return left_out;
}

SparseTable::SparseTable(const SparseTableSpec& spec)
    : spec_(spec), slabs_(spec.width * (1 + spec.rule.slots())) {}

/// Finds the rows of keys, batch after batch. Lines of the index are prefetched, and a row while the ones
/// after it are searched for.
class SparseTable::Search {
 public:
  Search(const SparseTable& table, std::span<const std::uint64_t> keys) : table_(table), keys_(keys) {
    for (std::size_t i = 0; i < ahead; ++i) look_at(i);
  }

  /// Goes on to the next batch; false after the last one.
  bool next() {
    first_ += size_;
    size_ = std::min(batch, keys_.size() - first_);
    std::size_t unsure = 0;
    for (std::size_t i = 0; i < size_; ++i) {
      const std::uint64_t hash = hashes_[(first_ + i) % ahead];
      look_at(first_ + i + ahead);
      numbers_[i] = table_.index_.find_in_line(keys_[first_ + i], hash);
      if (numbers_[i] == RowIndex::unsure) {
        __builtin_prefetch(table_.index_.next_line_of(hash));
        unsure_[unsure++] = i;
      } else if (numbers_[i] != RowIndex::none) {
        prefetch(table_.slabs_.row(numbers_[i]), table_.spec_.width);
      }
    }
    for (std::size_t j = 0; j < unsure; ++j) {
      const std::size_t i = unsure_[j];
      numbers_[i] = table_.index_.find(keys_[first_ + i], RowIndex::hash(keys_[first_ + i]));
      if (numbers_[i] != RowIndex::none) prefetch(table_.slabs_.row(numbers_[i]), table_.spec_.width);
    }
    return size_ > 0;
  }

  std::size_t first() const { return first_; }  ///< Key of the batch
  std::size_t size() const { return size_; }
  std::uint64_t key(std::size_t i) const { return keys_[first_ + i]; }  ///< Key i of the batch
  std::uint32_t number(std::size_t i) const { return numbers_[i]; }     ///< RowIndex::none: it is not there

 private:
  static constexpr std::size_t ahead = 32;  // More find no room among the lines that are on their way.

  void look_at(std::size_t i) {
    if (i >= keys_.size()) return;
    hashes_[i % ahead] = RowIndex::hash(keys_[i]);
    __builtin_prefetch(table_.index_.line_of(hashes_[i % ahead]));
  }

  const SparseTable& table_;
  std::span<const std::uint64_t> keys_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  std::array<std::uint64_t, ahead> hashes_;  // A ring
  std::array<std::uint32_t, batch> numbers_;
  std::array<std::size_t, batch> unsure_;
};

/// rows[i] ← that of the batch's key i, made if it is not there.
void SparseTable::make_rows(const Search& search, std::array<float*, batch>& rows) {
  std::array<std::uint64_t, batch> new_keys;
  std::array<float*, batch> new_rows;
  std::size_t made = 0;
  require(slabs_.size() < RowIndex::rows_at_most - batch, "a server's table has ", slabs_.size(),
          " rows and can have no more");
  for (std::size_t i = 0; i < search.size(); ++i) {
    const std::uint64_t key = search.key(i);
    std::uint32_t number = search.number(i);
    if (number == RowIndex::none) {
      // Another of this batch may have been the same key.
      const RowIndex::Found found = index_.find_or_add(key, RowIndex::hash(key), slabs_.size());
      number = found.row;
      if (found.added) {
        new_rows[made] = slabs_.add();
        new_keys[made++] = key;
      }
    }
    rows[i] = slabs_.row(number);
  }
  if (made > 0)
    start_rows(spec_.start, std::span(new_keys).first(made), std::span(new_rows).first(made), spec_.width);
}

void SparseTable::pull(std::span<const std::uint64_t> keys, std::span<float> rows) {
  const std::size_t width = spec_.width;
  require(rows.size() == keys.size() * width, "room for ", rows.size(), " values of ", keys.size(), " rows");
  std::array<float*, batch> found;
  for (Search search(*this, keys); search.next();) {
    make_rows(search, found);
    float* to = rows.data() + search.first() * width;
    for (std::size_t i = 0; i < search.size(); ++i, to += width) copy_row(found[i], to, width);
  }
}

void SparseTable::pull_without_insert(std::span<const std::uint64_t> keys, std::span<float> rows) const {
  const std::size_t width = spec_.width;
  require(rows.size() == keys.size() * width, "room for ", rows.size(), " values of ", keys.size(), " rows");
  for (Search search(*this, keys); search.next();) {
    float* to = rows.data() + search.first() * width;
    for (std::size_t i = 0; i < search.size(); ++i, to += width) {
      if (search.number(i) != RowIndex::none) {
        copy_row(slabs_.row(search.number(i)), to, width);
      } else {
        start_rows(spec_.start, keys.subspan(search.first() + i, 1), std::span<float* const>(&to, 1), width);
      }
    }
  }
}

PushCounts SparseTable::push(std::span<const RowGradients> parts, float learning_rate, float gradient_scale,
                             std::int64_t step) {
  const std::size_t width = spec_.width;
  PushCounts counts;
  std::size_t all = 0;
  for (const RowGradients& part : parts) {
    require(part.values.size() == part.keys.size() * width, part.values.size(), " values of gradients for ",
            part.keys.size(), " rows");
    all += part.keys.size();
  }
  merge_.begin(width, all);
  for (const RowGradients& part : parts) {
    for (Search search(*this, part.keys); search.next();) {
      const float* gradient = part.values.data() + search.first() * width;
      for (std::size_t i = 0; i < search.size(); ++i, gradient += width) {
        if (search.number(i) == RowIndex::none) {
          ++counts.absent;
        } else if (!finite({gradient, width})) {
          ++counts.not_finite;
        } else {
          merge_.add(search.number(i), slabs_.row(search.number(i)), gradient);
        }
      }
    }
  }
  counts.not_finite += merge_.finish();
  counts.updated = all - counts.absent - counts.not_finite;
  update_rows(spec_.rule, {.rows = merge_.rows(),
                           .gradients = merge_.gradients(),
                           .width = width,
                           .learning_rate = learning_rate,
                           .gradient_scale = gradient_scale,
                           .step = step});
  return counts;
}

PushCounts SparseTable::add(const RowGradients& deltas) {
  const std::size_t width = spec_.width;
  require(deltas.values.size() == deltas.keys.size() * width, deltas.values.size(), " values to add to ",
          deltas.keys.size(), " rows");
  PushCounts counts;
  for (Search search(*this, deltas.keys); search.next();) {
    const float* delta = deltas.values.data() + search.first() * width;
    for (std::size_t i = 0; i < search.size(); ++i, delta += width) {
      if (search.number(i) == RowIndex::none) {
        ++counts.absent;
      } else if (!finite({delta, width})) {
        ++counts.not_finite;
      } else {
        float* const row = slabs_.row(search.number(i));
        for (std::size_t j = 0; j < width; ++j) row[j] += delta[j];
        ++counts.updated;
      }
    }
  }
  return counts;
}

std::vector<std::uint64_t> SparseTable::sorted_keys() const {
  std::vector<std::uint64_t> keys;
  keys.reserve(rows());
  index_.for_each([&](std::uint64_t key, std::uint32_t) { keys.push_back(key); });
  std::ranges::sort(keys);
  return keys;
}

void SparseTable::read(std::span<const std::uint64_t> keys, std::span<float> values,
                       std::span<const std::span<float>> state) const {
  const std::size_t width = spec_.width;
  require(values.size() == keys.size() * width && (state.empty() || state.size() == slots()),
          "a table of width ", width, " and ", slots(), " slots is read into ", values.size(), " values and ",
          state.size(), " slots");
  for (const auto& slot : state)
    require(slot.size() == values.size(), "a slot of ", slot.size(), " values for ", values.size());
  for (Search search(*this, keys); search.next();) {
    for (std::size_t i = 0; i < search.size(); ++i) {
      require(search.number(i) != RowIndex::none, "row ", search.key(i), " is to be read, but is not there");
      const float* const row = slabs_.row(search.number(i));
      const std::size_t at = (search.first() + i) * width;
      copy_row(row, values.data() + at, width);
      for (std::size_t slot = 0; slot < state.size(); ++slot)
        copy_row(row + (1 + slot) * width, state[slot].data() + at, width);
    }
  }
}

void SparseTable::write(std::span<const std::uint64_t> keys, std::span<const float> values,
                        std::span<const std::span<const float>> state) {
  const std::size_t width = spec_.width;
  require(values.size() == keys.size() * width && (state.empty() || state.size() == slots()),
          "a table of width ", width, " and ", slots(), " slots is set to ", values.size(), " values and ",
          state.size(), " slots");
  for (const auto& slot : state)
    require(slot.size() == values.size(), "a slot of ", slot.size(), " values for ", values.size());
  std::array<float*, batch> rows;
  for (Search search(*this, keys); search.next();) {
    make_rows(search, rows);
    for (std::size_t i = 0; i < search.size(); ++i) {
      const std::size_t at = (search.first() + i) * width;
      copy_row(values.data() + at, rows[i], width);
      for (std::size_t slot = 0; slot < slots(); ++slot) {
        float* const to = rows[i] + (1 + slot) * width;
        if (state.empty()) {
          std::fill_n(to, width, 0.0F);
        } else {
          copy_row(state[slot].data() + at, to, width);
        }
      }
    }
  }
}

std::size_t SparseTable::memory_bytes() const {
  return slabs_.size() * slabs_.row_floats() * sizeof(float) + index_.bytes();
}

std::size_t planned_bytes(std::size_t rows, std::size_t width, std::size_t slots) {
  const std::size_t last_pages = 2 * Pages::huge_page + RowIndex::segment_count * Pages::page;
  return rows * width * (1 + slots) * sizeof(float) +
         static_cast<std::size_t>(RowIndex::bytes_per_row * static_cast<double>(rows)) + last_pages;
}

}  // namespace flotilla
