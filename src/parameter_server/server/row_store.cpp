// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/row_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kernels/error.hpp"
#include "src/checkpoint/row_file.hpp"
#include "src/config/optimizers.hpp"
#include "src/job/same_on_all_ranks.hpp"
#include "src/observe/console.hpp"
#include "src/parameter_server/protocol/row_messages.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"

namespace flotilla {

RowTables::RowTables(std::span<const SparseTableSpec> specs, mpi::Wire wire)
    : wire_(wire), parts_(specs.size()) {
  tables_.reserve(specs.size());
  for (const SparseTableSpec& spec : specs) {
    tables_.emplace_back(spec);
    widths_.push_back(spec.width);
  }
}

/// The values of a section, valid until the next apply().
RowGradients RowTables::gradients_of(const RowSection& section) {
  const std::size_t values = section.keys.size() * widths_[section.table];
  if (wire_ == mpi::Wire::float32)
    return {.keys = section.keys, .values = {reinterpret_cast<const float*>(section.values.data()), values}};
  if (used_ == decoded_.size()) decoded_.emplace_back();
  std::vector<float>& decoded = decoded_[used_++];
  if (decoded.size() < values) decoded.resize(values);
  mpi::decode(wire_, section.values.data(), std::span(decoded).first(values));
  return {.keys = section.keys, .values = std::span(decoded).first(values)};
}

PushCounts RowTables::apply(std::span<const std::span<const std::byte>> requests, float learning_rate,
                            float gradient_scale, std::int64_t step) {
  PushCounts counts;
  for (auto& parts : parts_) parts.clear();
  used_ = 0;
  for (const auto& request : requests) {
    RowRequestReader reader(request, widths_, wire_);
    while (const auto section = reader.next()) {
      if (section->operation == RowOperation::add)
        counts += tables_[section->table].add(gradients_of(*section));
      if (section->operation == RowOperation::push) parts_[section->table].push_back(gradients_of(*section));
    }
  }
  for (std::size_t table = 0; table < tables_.size(); ++table)
    if (!parts_[table].empty())
      counts += tables_[table].push(parts_[table], learning_rate, gradient_scale, step);
  return counts;
}

void RowTables::answer(std::span<const std::byte> request, std::span<std::byte> reply) {
  RowRequestReader reader(request, widths_, wire_);
  std::size_t written = 0;
  while (const auto section = reader.next()) {
    if (has_values(section->operation)) continue;
    const std::size_t values = section->keys.size() * widths_[section->table];
    const std::size_t bytes = values * mpi::bytes_per_value(wire_);
    require(bytes <= reply.size() - written, "a worker expects ", reply.size(),
            " bytes of rows, but asks for more");
    const bool is_float = wire_ == mpi::Wire::float32;
    if (!is_float && rows_.size() < values) rows_.resize(values);
    const std::span<float> rows(is_float ? reinterpret_cast<float*>(reply.data() + written) : rows_.data(),
                                values);
    if (section->operation == RowOperation::pull) {
      tables_[section->table].pull(section->keys, rows);
    } else {
      tables_[section->table].pull_without_insert(section->keys, rows);
    }
    if (!is_float) mpi::encode(wire_, rows, reply.data() + written);
    written += bytes;
  }
  require(written == reply.size(), "a worker expects ", reply.size(), " bytes of rows and asks for ",
          written);
}

namespace {

std::vector<SparseTableSpec> specs_of(const Config& config) {
  std::vector<SparseTableSpec> specs;
  for (const TableSpec& table : tables_of(config.model))
    specs.push_back({.width = table.width,
                     .rule = row_rule(servers_optimizer(config)),
                     .start = {.kind = StartKind::uniform,
                               .scale = static_cast<float>(config.model.embedding_scale),
                               .seed = static_cast<std::uint64_t>(config.run.seed) + specs.size()}});
  return specs;
}

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

/// The file's description of the server's tables.
std::vector<RowTable> tables_in(RowStore& rows) {
  std::vector<RowTable> tables;
  for (std::size_t i = 0; i < rows.specs().size(); ++i)
    tables.push_back({.name = rows.specs()[i].name,
                      .width = static_cast<std::int64_t>(rows.specs()[i].width),
                      .slots = rows.slot_names(),
                      .rows = static_cast<std::int64_t>(rows.table(i).rows())});
  return tables;
}

/// The index of this table in the file. @throws UserError
std::size_t find_table(const TableSource& file, const std::string& path, const TableSpec& spec) {
  const auto& tables = file.tables();
  const auto found = std::ranges::find(tables, spec.name, &RowTable::name);
  if (found == tables.end())
    throw UserError(cat(path, " has no table \"", spec.name, "\", which this model needs"));
  if (found->width != static_cast<std::int64_t>(spec.width))
    throw UserError(cat(path, ": the rows of table \"", spec.name, "\" have ", found->width,
                        " values, those of this model ", spec.width, " (model.embedding_width)"));
  return static_cast<std::size_t>(found - tables.begin());
}

}  // namespace

std::vector<TableSpec> tables_of(const ModelConfig& model) {
  if (!model.has_embeddings()) return {};
  return {{.name = "embeddings", .width = static_cast<std::size_t>(model.embedding_width)}};
}

RowStore::RowStore(const Config& config)
    : specs_(tables_of(config.model)), tables_(specs_of(config), mpi::wire_of(config.server()->wire)) {
  if (!empty()) slot_names_ = flotilla::slot_names(row_rule(servers_optimizer(config)));
}

void RowStore::push(std::span<const std::span<const std::byte>> requests, double learning_rate,
                    double gradient_scale, std::int64_t step) {
  counts_ +=
      tables_.apply(requests, static_cast<float>(learning_rate), static_cast<float>(gradient_scale), step);
}

std::vector<std::string> RowStore::report() {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    lines.push_back(fmt::format("{}: {} rows, {}", specs_[i].name, tables_[i].rows(),
                                bytes_text(static_cast<std::int64_t>(tables_[i].memory_bytes()))));
  if (counts_.absent + counts_.not_finite > 0)
    lines.push_back(fmt::format("gradients of {} rows; left out: {} of absent rows, {} not finite",
                                counts_.updated, counts_.absent, counts_.not_finite));
  return lines;
}

RowSave::RowSave(RowStore& rows, const std::string& path, const CheckpointState& state)
    : file_(path, tables_in(rows)) {
  for (std::size_t i = 0; i < file_.tables().size(); ++i)
    write_table(file_, i, file_.tables()[i], rows.table(i));
  part_ = file_.complete(state);
}

SharedRows::SharedRows(std::unique_ptr<RowFileReader> file, int reader, const mpi::Communicator& ranks,
                       RowState state)
    : file_(std::move(file)), ranks_(ranks), reader_(reader) {
  if (file_) tables_ = file_->tables();
  if (state == RowState::left_out)
    for (RowTable& table : tables_) table.slots.clear();
  broadcast_packed(tables_, ranks, reader);
}

RowPiece SharedRows::next(std::size_t table) {
  try {
    if (const RowPiece piece = file_ ? file_->next(table) : RowPiece(); file_) {
      piece_ = {.keys = {piece.keys.begin(), piece.keys.end()},
                .values = {piece.values.begin(), piece.values.end()}};
      for (std::size_t k = 0; k < std::min(tables_[table].slots.size(), piece.slots.size()); ++k)
        piece_.slots.emplace_back(piece.slots[k].begin(), piece.slots[k].end());
    }
  } catch (const UserError& error) {
    piece_ = {.mistake = error.what()};
  }
  broadcast_packed(piece_, ranks_, reader_);
  if (!piece_.mistake.empty()) throw UserError(piece_.mistake);
  slots_.assign(piece_.slots.begin(), piece_.slots.end());
  return {.keys = piece_.keys, .values = piece_.values, .slots = slots_};
}

void load_rows(RowStore& rows, TableSource& file, const std::string& path,
               const std::function<bool(std::uint64_t key)>& is_wanted) {
  for (std::size_t i = 0; i < rows.specs().size(); ++i) {
    const std::size_t number = find_table(file, path, rows.specs()[i]);
    const bool has_state = file.tables()[number].slots == rows.slot_names();
    SparseTable& table = rows.table(i);
    RowRoom room(table.width(), has_state ? table.slots() : 0);
    for (RowPiece piece = file.next(number); !piece.keys.empty(); piece = file.next(number)) {
      room.clear();
      for (std::size_t row = 0; row < piece.keys.size(); ++row)
        if (is_wanted(piece.keys[row])) room.add(piece, row);
      if (has_state) {
        table.write(room.keys, room.values, room.const_state());
      } else {
        table.write(room.keys, room.values);
      }
    }
  }
}

}  // namespace flotilla
