// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/row_parts.hpp"

#include <algorithm>

#include "kernels/error.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"

namespace flotilla {

namespace {

/// Room for some rows with their state, in the shape that tables and files exchange.
class RowRoom {
 public:
  RowRoom(std::size_t width, std::size_t slots) : width_(width), slots_(slots) {}

  void clear() {
    keys.clear();
    values.clear();
    for (auto& slot : slots_) slot.clear();
  }
  void resize(std::size_t rows) {
    values.resize(rows * width_);
    for (auto& slot : slots_) slot.resize(rows * width_);
  }
  void add(const RowPiece& piece, std::size_t row) {
    const auto append = [&](std::vector<float>& to, std::span<const float> from) {
      const auto values_of_row = from.subspan(row * width_, width_);
      to.insert(to.end(), values_of_row.begin(), values_of_row.end());
    };
    keys.push_back(piece.keys[row]);
    append(values, piece.values);
    for (std::size_t i = 0; i < slots_.size(); ++i) append(slots_[i], piece.slots[i]);
  }
  std::vector<std::span<float>> state() { return {slots_.begin(), slots_.end()}; }
  std::vector<std::span<const float>> const_state() const { return {slots_.begin(), slots_.end()}; }

  std::vector<std::uint64_t> keys;
  std::vector<float> values;

 private:
  std::size_t width_;
  std::vector<std::vector<float>> slots_;
};

void write_table(RowFileWriter& file, std::size_t number, const RowTable& description,
                 const SparseTable& table) {
  const std::vector<std::uint64_t> keys = table.sorted_keys();
  const auto most = static_cast<std::size_t>(rows_of_piece(description));
  RowRoom room(table.width(), table.slots());
  for (std::size_t begin = 0; begin < keys.size(); begin += most) {
    const auto piece = std::span(keys).subspan(begin, std::min(most, keys.size() - begin));
    room.resize(piece.size());
    table.read(piece, room.values, room.state());
    file.write(number, {.keys = piece, .values = room.values, .slots = room.const_state()});
  }
}

/// How a file describes what the server holds.
std::vector<RowTable> tables_in(RowStore& rows) {
  std::vector<RowTable> tables;
  for (std::size_t i = 0; i < rows.specs().size(); ++i)
    tables.push_back({.name = rows.specs()[i].name,
                      .width = static_cast<std::int64_t>(rows.specs()[i].width),
                      .slots = rows.slot_names(),
                      .rows = static_cast<std::int64_t>(rows.table(i).rows())});
  return tables;
}

/// Which of the file's tables is this one. @throws UserError
std::size_t find_table(const RowFileReader& file, const TableSpec& spec) {
  const auto& tables = file.tables();
  const auto found = std::ranges::find(tables, spec.name, &RowTable::name);
  if (found == tables.end())
    throw UserError(cat(file.path(), " has no table \"", spec.name, "\", which this model needs"));
  if (found->width != static_cast<std::int64_t>(spec.width))
    throw UserError(cat(file.path(), ": the rows of table \"", spec.name, "\" have ", found->width,
                        " values, those of this model ", spec.width, " (model.embedding_width)"));
  return static_cast<std::size_t>(found - tables.begin());
}

}  // namespace

RowSave::RowSave(RowStore& rows, const std::string& path, const CheckpointState& state)
    : file_(path, tables_in(rows)) {
  for (std::size_t i = 0; i < file_.tables().size(); ++i)
    write_table(file_, i, file_.tables()[i], rows.table(i));
  part_ = file_.complete(state);
}

void load_rows(RowStore& rows, RowFileReader& file, int server, int servers) {
  for (std::size_t i = 0; i < rows.specs().size(); ++i) {
    const std::size_t number = find_table(file, rows.specs()[i]);
    const bool has_state = file.tables()[number].slots == rows.slot_names();
    SparseTable& table = rows.table(i);
    RowRoom room(table.width(), has_state ? table.slots() : 0);
    for (RowPiece piece = file.next(number); !piece.keys.empty(); piece = file.next(number)) {
      room.clear();
      for (std::size_t row = 0; row < piece.keys.size(); ++row)
        if (server_of(piece.keys[row], servers) == server) room.add(piece, row);
      if (has_state) {
        table.write(room.keys, room.values, room.const_state());
      } else {
        table.write(room.keys, room.values);
      }
    }
  }
}

}  // namespace flotilla
