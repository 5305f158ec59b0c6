// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/local_rows.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "src/config/optimizers.hpp"
#include "src/observe/console.hpp"
#include "src/parameter_server/rows/sparse_table.hpp"

namespace flotilla {

namespace {

constexpr std::size_t ahead = 16;  // Lines of the index that are on their way while one is searched

std::size_t arrays_of(const RowRule& rule) {
  return 2 + rule.slots();
}

}  // namespace

LocalRows::LocalRows(std::size_t width, const RowRule& rule)
    : width_(width), rule_(rule), slabs_(width * arrays_of(rule)) {}

std::uint32_t LocalRows::find_or_add(std::uint64_t key) {
  const RowIndex::Found found = index_.find_or_add(key, RowIndex::hash(key), slabs_.size());
  if (found.added) {
    require(slabs_.size() < RowIndex::rows_at_most, "a worker's table has ", slabs_.size(),
            " rows and can have no more");
    slabs_.add();
    marks_.push_back(0);
  }
  return found.row;
}

std::span<const std::uint64_t> LocalRows::find(std::span<const std::uint64_t> keys) {
  batch_.clear();
  batch_keys_.assign(keys.begin(), keys.end());
  missing_.clear();
  missing_keys_.clear();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i + ahead < keys.size()) __builtin_prefetch(index_.line_of(RowIndex::hash(keys[i + ahead])));
    const std::uint32_t number = find_or_add(keys[i]);
    batch_.push_back(number);
    if (marks_[number] >= 2 * period_) continue;
    missing_.push_back(number);
    missing_keys_.push_back(keys[i]);
  }
  return missing_keys_;
}

/// p ← p + (s − old); old ← s. A new row is zero, and becomes what the servers have.
void LocalRows::follow_row(std::uint32_t number, const float* pulled) {
  float* const row = slabs_.row(number);
  float* const old = pulled_of(row);
  for (std::size_t i = 0; i < width_; ++i) {
    row[i] += pulled[i] - old[i];
    old[i] = pulled[i];
  }
  marks_[number] = 2 * period_;
}

void LocalRows::take(std::span<const float> pulled) {
  require(pulled.size() == missing_.size() * width_, pulled.size(), " values of ", missing_.size(), " rows");
  const float* from = pulled.data();
  for (const std::uint32_t number : missing_) {
    follow_row(number, from);
    from += width_;
  }
}

void LocalRows::read(std::span<float> values) const {
  require(values.size() == batch_.size() * width_, "room for ", values.size(), " values of ", batch_.size(),
          " rows");
  float* to = values.data();
  for (const std::uint32_t number : batch_) to = std::copy_n(slabs_.row(number), width_, to);
}

void LocalRows::train(std::span<const float> gradients, float learning_rate, std::int64_t step) {
  require(gradients.size() == batch_.size() * width_, gradients.size(), " values of gradients for ",
          batch_.size(), " rows");
  updated_.clear();
  gradients_.clear();
  for (std::size_t i = 0; i < batch_.size(); ++i) {
    const auto gradient = gradients.subspan(i * width_, width_);
    if (!finite(gradient)) {
      ++not_finite_;
      continue;
    }
    updated_.push_back(slabs_.row(batch_[i]));
    gradients_.push_back(gradient.data());
    std::uint32_t& mark = marks_[batch_[i]];
    if (mark > 2 * period_) continue;
    mark = 2 * period_ + 1;
    trained_.push_back(batch_[i]);
    trained_keys_.push_back(batch_keys_[i]);
  }
  update_rows(rule_, {.rows = updated_,
                      .gradients = gradients_,
                      .width = width_,
                      .learning_rate = learning_rate,
                      .step = step});
}

void LocalRows::push(float share, std::span<float> to) {
  require(to.size() == trained_.size() * width_, "room for ", to.size(), " values of ", trained_.size(),
          " rows");
  float* difference = to.data();
  for (const std::uint32_t number : trained_) {
    const float* const row = slabs_.row(number);
    float* const old = pulled_of(slabs_.row(number));
    for (std::size_t i = 0; i < width_; ++i) difference[i] = (row[i] - old[i]) * share;
    // Rounded as it travels, so that the servers add the same.
    for (std::size_t i = 0; i < width_; ++i) old[i] += difference[i];
    difference += width_;
  }
}

void LocalRows::apply_pulled(std::span<const float> pulled) {
  require(pulled.size() == trained_.size() * width_, pulled.size(), " values of ", trained_.size(), " rows");
  ++period_;
  const float* from = pulled.data();
  for (const std::uint32_t number : trained_) {
    follow_row(number, from);
    from += width_;
  }
  trained_.clear();
  trained_keys_.clear();
}

void LocalRows::pull_all_again() {
  require(trained_.empty(), "rows that were trained are forgotten before they are pushed");
  ++period_;
}

std::vector<std::uint64_t> LocalRows::sorted_keys() const {
  std::vector<std::uint64_t> keys;
  keys.reserve(rows());
  index_.for_each([&](std::uint64_t key, std::uint32_t) { keys.push_back(key); });
  std::ranges::sort(keys);
  return keys;
}

std::vector<std::string> LocalRows::slot_names() const {
  std::vector<std::string> names = flotilla::slot_names(rule_);
  names.push_back("pulled");
  return names;
}

void LocalRows::read(std::span<const std::uint64_t> keys, std::size_t array, std::span<float> to) const {
  require(to.size() == keys.size() * width_ && array < arrays_of(rule_), "room for ", to.size(),
          " values of array ", array, " of ", keys.size(), " rows");
  float* next = to.data();
  for (const std::uint64_t key : keys) {
    const std::uint32_t number = index_.find(key, RowIndex::hash(key));
    require(number != RowIndex::none, "row ", key, " is to be read, but is not there");
    next = std::copy_n(slabs_.row(number) + array * width_, width_, next);
  }
}

void LocalRows::write(std::span<const std::uint64_t> keys, std::span<const std::span<const float>> arrays) {
  require(arrays.size() == arrays_of(rule_), "a row of ", arrays_of(rule_), " arrays is set to ",
          arrays.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const std::uint32_t number = find_or_add(keys[i]);
    marks_[number] = 0;
    float* to = slabs_.row(number);
    for (const std::span<const float> array : arrays)
      to = std::copy_n(array.subspan(i * width_, width_).data(), width_, to);
  }
}

std::size_t LocalRows::memory_bytes() const {
  return slabs_.size() * (slabs_.row_floats() * sizeof(float) + sizeof(std::uint32_t)) + index_.bytes();
}

std::string describe_local_rows(const Config& config, std::int64_t slots_of_sample) {
  const auto width = static_cast<std::size_t>(config.model.embedding_width);
  const std::size_t arrays = arrays_of(row_rule(config.optimizer));
  std::string text = cat("each worker keeps all that it touches, ", width * arrays * sizeof(float),
                         " bytes each and about 24 to find it, twice while a checkpoint is written");
  const std::int64_t buckets = config.data.hash_buckets;
  if (buckets == 0) return text + "; their number depends on the data";
  const std::int64_t rows =
      config.model.embeddings == EmbeddingTables::per_slot ? buckets * slots_of_sample : buckets;
  const std::size_t bytes = planned_bytes(static_cast<std::size_t>(rows), width, arrays - 1) +
                            static_cast<std::size_t>(rows) * sizeof(std::uint32_t);
  return text + cat("; at most ", rows, ", ", bytes_text(static_cast<std::int64_t>(bytes)));
}

}  // namespace flotilla
