// SPDX-License-Identifier: Apache-2.0
#include "tests/checkpoint/row_samples.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "src/checkpoint/checkpoint_folder.hpp"
#include "tests/checkpoint/samples.hpp"

namespace flotilla {

namespace {

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::ranges::equal(std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
}

}  // namespace

Rows sample_rows(const RowTable& table, std::uint64_t seed) {
  Rows rows{.table = table, .keys = {}, .values = {}, .slots = {}};
  const auto count = static_cast<std::uint64_t>(table.rows);
  const std::uint64_t distance =
      std::numeric_limits<std::uint64_t>::max() / std::max<std::uint64_t>(count, 1);
  for (std::uint64_t i = 1; i <= count; ++i) rows.keys.push_back(i * distance - seed);
  const auto fill = [&](float first) {
    std::vector<float> values(count * static_cast<std::uint64_t>(table.width));
    for (float& value : values) value = first++;
    return values;
  };
  rows.values = fill(static_cast<float>(seed));
  const std::vector<float> special = {std::nanf("7"), -std::numeric_limits<float>::infinity(), -0.0F};
  if (rows.values.size() > special.size()) std::ranges::copy(special, rows.values.begin());
  for (std::size_t slot = 0; slot < table.slots.size(); ++slot)
    rows.slots.push_back(fill(1e6F * static_cast<float>(slot + 1)));
  return rows;
}

Rows share_of(const Rows& rows, std::size_t server, std::size_t servers) {
  Rows share{.table = rows.table, .keys = {}, .values = {}, .slots = {}};
  share.slots.resize(rows.slots.size());
  const auto width = static_cast<std::ptrdiff_t>(rows.table.width);
  const auto copy_row = [&](std::size_t row, const std::vector<float>& from, std::vector<float>& to) {
    const auto begin = from.begin() + static_cast<std::ptrdiff_t>(row) * width;
    to.insert(to.end(), begin, begin + width);
  };
  for (std::size_t row = server; row < rows.keys.size(); row += servers) {
    share.keys.push_back(rows.keys[row]);
    copy_row(row, rows.values, share.values);
    for (std::size_t slot = 0; slot < rows.slots.size(); ++slot)
      copy_row(row, rows.slots[slot], share.slots[slot]);
  }
  share.table.rows = static_cast<std::int64_t>(share.keys.size());
  return share;
}

CheckpointPart write_rows(const std::string& path, const std::vector<Rows>& tables,
                          const CheckpointState& state, std::size_t piece) {
  std::vector<RowTable> headings;
  for (const Rows& rows : tables) headings.push_back(rows.table);
  RowFileWriter writer(path, headings);
  for (std::size_t table = 0; table < tables.size(); ++table) {
    const Rows& rows = tables[table];
    const auto width = static_cast<std::size_t>(rows.table.width);
    for (std::size_t done = 0; done < rows.keys.size();) {
      const std::size_t count = std::min(piece, rows.keys.size() - done);
      const auto cut = [&](const std::vector<float>& values) {
        return std::span(values).subspan(done * width, count * width);
      };
      std::vector<std::span<const float>> slots;
      for (const auto& slot : rows.slots) slots.push_back(cut(slot));
      writer.write(
          table,
          {.keys = std::span(rows.keys).subspan(done, count), .values = cut(rows.values), .slots = slots});
      done += count;
    }
  }
  const CheckpointPart part = writer.complete(state);
  writer.give_name();
  return part;
}

Rows read_rows(TableSource& source, std::size_t table) {
  Rows rows{.table = source.tables()[table], .keys = {}, .values = {}, .slots = {}};
  rows.slots.resize(rows.table.slots.size());
  const auto append = [](auto from, auto& to) { to.insert(to.end(), from.begin(), from.end()); };
  for (RowPiece piece = source.next(table); !piece.keys.empty(); piece = source.next(table)) {
    append(piece.keys, rows.keys);
    append(piece.values, rows.values);
    for (std::size_t slot = 0; slot < rows.slots.size(); ++slot) append(piece.slots[slot], rows.slots[slot]);
  }
  return rows;
}

bool equal(const Rows& a, const Rows& b) {
  return a.table.name == b.table.name && a.table.width == b.table.width && a.table.slots == b.table.slots &&
         a.table.rows == b.table.rows && a.keys == b.keys && same_bits(a.values, b.values) &&
         std::ranges::equal(a.slots, b.slots, same_bits);
}

std::string save_with_servers(const std::string& folder, std::int64_t step, const std::vector<Rows>& tables,
                              std::size_t servers) {
  CheckpointWriter writer(folder, 9);  // first: it removes parts whose checkpoint is not there
  Save save = save_of(sample_snapshot(step));
  const CheckpointFolder checkpoints(folder);
  checkpoints.make_parts(step);
  for (std::size_t server = 0; server < servers; ++server) {
    std::vector<Rows> shares;
    for (const Rows& rows : tables) shares.push_back(share_of(rows, server, servers));
    save.state.server_parts.push_back(write_rows(checkpoints.server_part_path(step, static_cast<int>(server)),
                                                 shares, sample_snapshot(step).state));
  }
  writer.start(std::move(save));
  writer.finish();
  const SaveReport report = writer.reports().at(0);
  EXPECT_EQ(report.error, "");
  return report.path;
}

}  // namespace flotilla
