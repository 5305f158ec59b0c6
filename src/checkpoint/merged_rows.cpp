// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/merged_rows.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"

namespace flotilla {

std::unique_ptr<RowFileReader> open_server_part(const std::string& checkpoint, const CheckpointPart& part) {
  const std::string path = part_file(checkpoint, part);
  auto reader = std::make_unique<RowFileReader>(path);
  if (reader->checksum() != part.checksum)
    throw UserError(
        cat("'", path, "' was written by another save than '", checkpoint, "', to which it should belong"));
  return reader;
}

std::vector<std::unique_ptr<RowFileReader>> open_rows(const std::string& file, const CheckpointState& state) {
  std::vector<std::unique_ptr<RowFileReader>> readers;
  readers.push_back(std::make_unique<RowFileReader>(file));
  if (readers.front()->tables().empty()) readers.clear();
  for (const CheckpointPart& part : state.server_parts) readers.push_back(open_server_part(file, part));
  return readers;
}

MergedRows::MergedRows(std::vector<std::unique_ptr<RowFileReader>> parts)
    : parts_(std::move(parts)), fronts_(parts_.size()) {
  const auto same = [](const RowTable& a, const RowTable& b) {
    return a.name == b.name && a.width == b.width;
  };
  for (const auto& part : parts_) {
    if (part == parts_.front())
      for (const RowTable& table : part->tables())
        tables_.push_back({.name = table.name, .width = table.width});
    if (!std::ranges::equal(part->tables(), tables_, same))
      throw UserError(
          cat("'", part->path(), "' and '", parts_.front()->path(), "' do not hold the same tables"));
    for (std::size_t i = 0; i < tables_.size(); ++i) tables_[i].rows += part->tables()[i].rows;
  }
}

RowPiece MergedRows::next(std::size_t table) {
  if (table_ != table) begin(table);
  keys_.clear();
  values_.clear();
  const auto most = static_cast<std::size_t>(rows_of_piece(tables_[table]));
  while (keys_.size() < most && !heap_.empty()) append_smallest();
  return {.keys = keys_, .values = values_};
}

void MergedRows::begin(std::size_t table) {
  require(heap_.empty(), "a table is begun before the one before it was read to its end");
  table_ = table;
  last_key_.reset();
  for (std::size_t part = 0; part < parts_.size(); ++part) fetch(part);
}

std::uint64_t MergedRows::key_of(std::size_t part) const {
  return fronts_[part].piece.keys[fronts_[part].row];
}

void MergedRows::fetch(std::size_t part) {
  Front& front = fronts_[part];
  if (front.row == front.piece.keys.size()) front = {.piece = parts_[part]->next(*table_)};
  if (front.piece.keys.empty()) return;
  heap_.push_back(part);
  std::ranges::push_heap(heap_, std::ranges::greater{}, [&](std::size_t i) { return key_of(i); });
}

void MergedRows::append_smallest() {
  std::ranges::pop_heap(heap_, std::ranges::greater{}, [&](std::size_t i) { return key_of(i); });
  const std::size_t part = heap_.back();
  heap_.pop_back();
  Front& front = fronts_[part];
  const std::uint64_t key = key_of(part);
  if (last_key_ == key)
    throw UserError(cat("'", parts_[part]->path(), "': another part holds row ", key, " of /rows/",
                        tables_[*table_].name, " too"));
  last_key_ = key;
  const auto width = static_cast<std::size_t>(tables_[*table_].width);
  const auto row = front.piece.values.subspan(front.row * width, width);
  keys_.push_back(key);
  values_.insert(values_.end(), row.begin(), row.end());
  ++front.row;
  fetch(part);
}

}  // namespace flotilla
