// SPDX-License-Identifier: Apache-2.0
#include "src/checkpoint/row_file.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/checkpoint_folder.hpp"
#include "src/checkpoint/hdf5_read.hpp"

namespace flotilla {

namespace {

std::string path_of(const RowTable& table, const std::string& dataset) {
  return cat("rows/", table.name, "/", dataset);
}

std::vector<CheckpointTensor> datasets_of(std::span<const RowTable> tables,
                                          std::span<const CheckpointTensor> others) {
  std::vector<CheckpointTensor> datasets(others.begin(), others.end());
  for (const RowTable& table : tables) std::ranges::copy(datasets_of(table), std::back_inserter(datasets));
  require_readable_names(datasets);
  return datasets;
}

std::size_t floats_of(std::size_t rows, const RowTable& table) {
  return rows * static_cast<std::size_t>(table.width);
}

/// Whether keys ascend, after the last one before them.
bool ascend(std::span<const std::uint64_t> keys, std::optional<std::uint64_t> last) {
  return (!last || *last < keys.front()) &&
         std::ranges::adjacent_find(keys, std::ranges::greater_equal{}) == keys.end();
}

}  // namespace

std::vector<CheckpointTensor> datasets_of(const RowTable& table) {
  require(table.width > 0 && table.rows >= 0 && !table.name.empty(), "a table of ", table.rows,
          " rows of width ", table.width, " named '", table.name, "'");
  const Shape shape = {table.rows, table.width};
  std::vector<CheckpointTensor> datasets = {
      {.path = path_of(table, "keys"), .shape = {table.rows}, .element = Element::unsigned64},
      {.path = path_of(table, "values"), .shape = shape}};
  for (const std::string& slot : table.slots)
    datasets.push_back({.path = path_of(table, slot), .shape = shape});
  return datasets;
}

std::int64_t rows_of_piece(const RowTable& table) {
  constexpr std::int64_t piece_bytes = 1 << 20;
  const std::int64_t floats = table.width * (1 + static_cast<std::int64_t>(table.slots.size()));
  const auto bytes =
      static_cast<std::int64_t>(sizeof(std::uint64_t)) + floats * static_cast<std::int64_t>(sizeof(float));
  return std::max<std::int64_t>(1, piece_bytes / bytes);
}

RowFileWriter::RowFileWriter(std::string path, std::vector<RowTable> tables,
                             std::span<const CheckpointTensor> others)
    : tables_(std::move(tables)),
      last_keys_(tables_.size()),
      file_(std::move(path), datasets_of(tables_, others)) {
  std::size_t first = others.size();
  for (const RowTable& table : tables_) {
    keys_of_.push_back(first);
    first += 2 + table.slots.size();
  }
}

void RowFileWriter::write(std::size_t number, const RowPiece& piece) {
  const RowTable& table = tables_[number];
  const std::size_t floats = floats_of(piece.keys.size(), table);
  require(piece.values.size() == floats && piece.slots.size() == table.slots.size() &&
              std::ranges::all_of(piece.slots, [&](const auto& slot) { return slot.size() == floats; }),
          "a piece of table ", table.name, " does not have its sizes");
  if (piece.keys.empty()) return;
  require(ascend(piece.keys, last_keys_[number]), "the keys of table ", table.name, " do not ascend");
  last_keys_[number] = piece.keys.back();
  std::size_t dataset = keys_of_[number];
  file_.append(dataset, std::as_bytes(piece.keys));
  file_.append(++dataset, std::as_bytes(piece.values));
  for (const std::span<const float> slot : piece.slots) file_.append(++dataset, std::as_bytes(slot));
}

RowFileReader::RowFileReader(const std::string& path)
    : index_(hdf5::read_index(path)), file_(File::open(path)) {
  if (const std::string problem = index_problem(index_); !problem.empty())
    throw UserError(cat("'", path, "' is damaged: ", problem));
  for (const StoredTensor& tensor : index_.tensors)
    if (is_of_rows(tensor.path)) take(tensor);
  for (std::size_t i = 0; i < tables_.size(); ++i) complete(tables_[i], progress_[i]);
}

void RowFileReader::take(const StoredTensor& tensor) {
  const std::size_t begin = tensor.path.find('/') + 1;
  const std::size_t end = tensor.path.find('/', begin);
  if (end == std::string::npos) throw UserError(cat("'", path(), "': /", tensor.path, " is not in a table"));
  const std::string name = tensor.path.substr(begin, end - begin);
  const std::string dataset = tensor.path.substr(end + 1);
  if (tables_.empty() || tables_.back().name != name) {
    tables_.push_back({.name = name});
    progress_.emplace_back().datasets.resize(2);
  }
  std::vector<const StoredTensor*>& datasets = progress_.back().datasets;
  if (dataset == "keys") {
    datasets[0] = &tensor;
  } else if (dataset == "values") {
    datasets[1] = &tensor;
  } else {
    datasets.push_back(&tensor);
    tables_.back().slots.push_back(dataset);
  }
}

void RowFileReader::complete(RowTable& table, TableProgress& progress) const {
  const auto& datasets = progress.datasets;
  for (const std::size_t i : {0, 1})
    if (datasets[i] == nullptr)
      throw UserError(cat("'", path(), "' has no dataset /", path_of(table, i == 0 ? "keys" : "values"), ""));
  const Shape& shape = datasets[1]->shape;
  const auto like_values = [&](const StoredTensor* slot) { return slot->shape == shape; };
  if (shape.rank() != 2 || shape[1] < 1 || datasets[0]->shape != Shape{shape[0]} ||
      !std::all_of(datasets.begin() + 2, datasets.end(), like_values))
    throw UserError(cat("'", path(), "': the shapes of the datasets in /rows/", table.name,
                        " do not go together: keys (rows), all others (rows, width)"));
  table.width = shape[1];
  table.rows = shape[0];
  progress.sums.resize(datasets.size());
}

void RowFileReader::read(TableProgress& progress, std::size_t dataset, std::span<std::byte> to) {
  const StoredTensor& stored = *progress.datasets[dataset];
  const std::int64_t row_bytes = stored.bytes() / stored.shape[0];
  file_.read(*stored.position + progress.rows * row_bytes, to);
  progress.sums[dataset].add(to);
}

RowPiece RowFileReader::next(std::size_t number) {
  const RowTable& table = tables_[number];
  TableProgress& progress = progress_[number];
  const auto rows = static_cast<std::size_t>(std::min(rows_of_piece(table), table.rows - progress.rows));
  if (rows == 0) return {};
  keys_.resize(rows);
  read(progress, 0, std::as_writable_bytes(std::span(keys_)));
  if (!ascend(keys_, progress.last_key))
    throw UserError(
        cat("'", path(), "' is damaged: the keys in /", progress.datasets[0]->path, " do not ascend"));
  progress.last_key = keys_.back();
  const std::size_t size = floats_of(rows, table);
  floats_.resize(size * (1 + table.slots.size()));
  slots_.clear();
  for (std::size_t i = 0; i <= table.slots.size(); ++i) {
    const std::span<float> floats = std::span(floats_).subspan(i * size, size);
    read(progress, 1 + i, std::as_writable_bytes(floats));
    if (i > 0) slots_.push_back(floats);
  }
  progress.rows += static_cast<std::int64_t>(rows);
  if (progress.rows == table.rows) compare_checksums(progress);
  return {.keys = keys_, .values = std::span(floats_).first(size), .slots = slots_};
}

void RowFileReader::compare_checksums(const TableProgress& progress) const {
  for (std::size_t i = 0; i < progress.datasets.size(); ++i) {
    const StoredTensor& stored = *progress.datasets[i];
    if (stored.checksum && *stored.checksum != progress.sums[i].value())
      throw UserError(cat("'", path(), "' is damaged: the values of /", stored.path,
                          " are not those that were written (the checksum differs)"));
  }
}

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
