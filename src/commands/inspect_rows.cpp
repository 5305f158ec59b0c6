// SPDX-License-Identifier: Apache-2.0
#include "src/commands/inspect_rows.hpp"

#include <algorithm>
#include <memory>

#include "kernels/error.hpp"
#include "src/checkpoint/merged_rows.hpp"

namespace flotilla {

namespace {

TableSummary& summary_of(std::vector<TableSummary>& summaries, const RowTable& table) {
  const auto same = [&](const TableSummary& summary) {
    return summary.table.name == table.name && summary.table.width == table.width;
  };
  const auto known = std::ranges::find_if(summaries, same);
  if (known != summaries.end()) return *known;
  summaries.push_back(
      {.table = {.name = table.name, .width = table.width, .slots = table.slots}, .values = {}});
  return summaries.back();
}

/// Runs `work`; a UserError becomes a sentence of `damage`.
template <class Work>
void attempt(std::vector<std::string>& damage, Work work) {
  try {
    work();
  } catch (const UserError& error) {
    damage.emplace_back(error.what());
  }
}

}  // namespace

std::vector<TableSummary> describe_tables(const FileIndex& index, std::vector<std::string>& damage) {
  std::vector<TableSummary> summaries;
  const auto describe = [&](RowFileReader& reader) {
    for (std::size_t i = 0; i < reader.tables().size(); ++i)
      attempt(damage, [&] {
        TableSummary& summary = summary_of(summaries, reader.tables()[i]);
        for (RowPiece piece = reader.next(i); !piece.keys.empty(); piece = reader.next(i)) {
          summary.table.rows += static_cast<std::int64_t>(piece.keys.size());
          summary.values.add(piece.values);
        }
      });
  };
  const auto of_rows = [](const StoredTensor& tensor) { return is_of_rows(tensor.path); };
  attempt(damage, [&] {
    if (std::ranges::none_of(index.tensors, of_rows)) return;
    RowFileReader reader(index.path);
    describe(reader);
  });
  for (const CheckpointPart& part : index.state.server_parts)
    attempt(damage, [&] { describe(*open_server_part(index.path, part)); });
  return summaries;
}

}  // namespace flotilla
