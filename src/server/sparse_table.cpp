// SPDX-License-Identifier: Apache-2.0
#include "src/server/sparse_table.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

constexpr std::size_t line_floats = 16;

void prefetch(const float* row, std::size_t floats) {
  for (std::size_t i = 0; i < floats; i += line_floats) __builtin_prefetch(row + i);
}

void copy_row(const float* from, float* to, std::size_t width) {
  std::memcpy(to, from, width * sizeof(float));
}

}  // namespace

SparseTable::SparseTable(const SparseTableSpec& spec)
    : spec_(spec), slabs_(spec.width * (1 + state_slots(spec.rule.kind))) {}

/// The hashes of keys, one after the other; fetches lines of the index ahead of them.
class SparseTable::Hashes {
 public:
  Hashes(const RowIndex& index, std::span<const std::uint64_t> keys) : index_(index), keys_(keys) {
    for (std::size_t i = 0; i < ahead; ++i) look_at(i);
  }
  /// That of the next key, which is number i.
  std::uint64_t next(std::size_t i) {
    const std::uint64_t hash = ring_[i % ahead];
    look_at(i + ahead);
    return hash;
  }

 private:
  static constexpr std::size_t ahead = 32;  // More find no room among the lines that are on their way.

  void look_at(std::size_t i) {
    if (i >= keys_.size()) return;
    ring_[i % ahead] = RowIndex::hash(keys_[i]);
    __builtin_prefetch(index_.line_of(ring_[i % ahead]));
  }

  const RowIndex& index_;
  std::span<const std::uint64_t> keys_;
  std::array<std::uint64_t, ahead> ring_;
};

/// Calls use(first, numbers) for batch after batch: the numbers of the rows, RowIndex::none where there is
/// none.
template <class Use>
void SparseTable::find_batches(std::span<const std::uint64_t> keys, const Use& use) const {
  Hashes hashes(index_, keys);
  std::array<std::uint32_t, batch> numbers;
  for (std::size_t first = 0; first < keys.size(); first += batch) {
    const std::size_t some = std::min(batch, keys.size() - first);
    for (std::size_t i = 0; i < some; ++i) {
      numbers[i] = index_.find(keys[first + i], hashes.next(first + i));
      if (numbers[i] != RowIndex::none) prefetch(slabs_.row(numbers[i]), spec_.width);
    }
    use(first, std::span<const std::uint32_t>(numbers).first(some));
  }
}

/// Calls use(first, rows) for batch after batch, after it made the rows that were not there.
template <class Use>
void SparseTable::make_batches(std::span<const std::uint64_t> keys, const Use& use) {
  Hashes hashes(index_, keys);
  std::array<float*, batch> rows;
  std::array<std::uint64_t, batch> new_keys;
  std::array<float*, batch> new_rows;
  for (std::size_t first = 0; first < keys.size(); first += batch) {
    const std::size_t some = std::min(batch, keys.size() - first);
    require(slabs_.size() < RowIndex::none - batch, "a server's table holds ", slabs_.size(),
            " rows: it cannot hold more");
    std::size_t made = 0;
    for (std::size_t i = 0; i < some; ++i) {
      const std::uint64_t key = keys[first + i];
      const RowIndex::Found found = index_.find_or_add(key, hashes.next(first + i), slabs_.size());
      if (found.added) {
        rows[i] = new_rows[made] = slabs_.add();
        new_keys[made++] = key;
      } else {
        rows[i] = slabs_.row(found.row);
        prefetch(rows[i], spec_.width);
      }
    }
    if (made > 0)
      start_rows(spec_.start, std::span(new_keys).first(made), std::span(new_rows).first(made), spec_.width);
    use(first, std::span<float* const>(rows).first(some));
  }
}

void SparseTable::pull(std::span<const std::uint64_t> keys, std::span<float> rows) {
  const std::size_t width = spec_.width;
  require(rows.size() == keys.size() * width, "room for ", rows.size(), " values of ", keys.size(), " rows");
  make_batches(keys, [&](std::size_t first, std::span<float* const> found) {
    float* to = rows.data() + first * width;
    for (std::size_t i = 0; i < found.size(); ++i, to += width) copy_row(found[i], to, width);
  });
}

void SparseTable::peek(std::span<const std::uint64_t> keys, std::span<float> rows) const {
  const std::size_t width = spec_.width;
  require(rows.size() == keys.size() * width, "room for ", rows.size(), " values of ", keys.size(), " rows");
  find_batches(keys, [&](std::size_t first, std::span<const std::uint32_t> numbers) {
    float* to = rows.data() + first * width;
    for (std::size_t i = 0; i < numbers.size(); ++i, to += width) {
      if (numbers[i] != RowIndex::none) {
        copy_row(slabs_.row(numbers[i]), to, width);
      } else {
        start_rows(spec_.start, keys.subspan(first + i, 1), std::span<float* const>(&to, 1), width);
      }
    }
  });
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
    find_batches(part.keys, [&](std::size_t first, std::span<const std::uint32_t> numbers) {
      const float* gradient = part.values.data() + first * width;
      for (const std::uint32_t number : numbers) {
        if (number == RowIndex::none) {
          ++counts.absent;
        } else if (!finite({gradient, width})) {
          ++counts.not_finite;
        } else {
          merge_.add(number, slabs_.row(number), gradient);
        }
        gradient += width;
      }
    });
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
  find_batches(deltas.keys, [&](std::size_t first, std::span<const std::uint32_t> numbers) {
    const float* delta = deltas.values.data() + first * width;
    for (const std::uint32_t number : numbers) {
      if (number == RowIndex::none) {
        ++counts.absent;
      } else if (!finite({delta, width})) {
        ++counts.not_finite;
      } else {
        float* const row = slabs_.row(number);
        for (std::size_t i = 0; i < width; ++i) row[i] += delta[i];
        ++counts.updated;
      }
      delta += width;
    }
  });
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
  find_batches(keys, [&](std::size_t first, std::span<const std::uint32_t> numbers) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      require(numbers[i] != RowIndex::none, "row ", keys[first + i], " is to be read, but is not there");
      const float* const row = slabs_.row(numbers[i]);
      const std::size_t at = (first + i) * width;
      copy_row(row, values.subspan(at, width).data(), width);
      for (std::size_t slot = 0; slot < state.size(); ++slot)
        copy_row(row + (1 + slot) * width, state[slot].subspan(at, width).data(), width);
    }
  });
}

void SparseTable::write(std::span<const std::uint64_t> keys, std::span<const float> values,
                        std::span<const std::span<const float>> state) {
  const std::size_t width = spec_.width;
  require(values.size() == keys.size() * width && (state.empty() || state.size() == slots()),
          "a table of width ", width, " and ", slots(), " slots is set to ", values.size(), " values and ",
          state.size(), " slots");
  for (const auto& slot : state)
    require(slot.size() == values.size(), "a slot of ", slot.size(), " values for ", values.size());
  make_batches(keys, [&](std::size_t first, std::span<float* const> rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::size_t at = (first + i) * width;
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
  });
}

std::size_t SparseTable::memory_bytes() const {
  return slabs_.size() * slabs_.row_floats() * sizeof(float) + index_.bytes();
}

std::size_t planned_bytes(std::size_t rows, std::size_t width, std::size_t slots) {
  const std::size_t last_pages = 2 * Pages::huge_page + RowIndex::shard_count * Pages::page;
  return rows * width * (1 + slots) * sizeof(float) +
         static_cast<std::size_t>(RowIndex::bytes_per_row * static_cast<double>(rows)) + last_pages;
}

}  // namespace flotilla
