// SPDX-License-Identifier: Apache-2.0
#include "src/server/row_tables.hpp"

#include "kernels/error.hpp"
#include "src/server/row_messages.hpp"

namespace flotilla {

RowTables::RowTables(std::span<const SparseTableSpec> specs) : parts_(specs.size()) {
  tables_.reserve(specs.size());
  for (const SparseTableSpec& spec : specs) {
    tables_.emplace_back(spec);
    widths_.push_back(spec.width);
  }
}

PushCounts RowTables::apply(std::span<const std::span<const std::byte>> requests, float learning_rate,
                            float gradient_scale, std::int64_t step) {
  PushCounts counts;
  for (auto& parts : parts_) parts.clear();
  for (const auto& request : requests) {
    RowRequestReader reader(request, widths_);
    while (const auto section = reader.next()) {
      if (section->operation == RowOperation::add)
        counts += tables_[section->table].add({.keys = section->keys, .values = section->values});
      if (section->operation == RowOperation::push)
        parts_[section->table].push_back({.keys = section->keys, .values = section->values});
    }
  }
  for (std::size_t table = 0; table < tables_.size(); ++table)
    if (!parts_[table].empty())
      counts += tables_[table].push(parts_[table], learning_rate, gradient_scale, step);
  return counts;
}

void RowTables::answer(std::span<const std::byte> request, std::span<std::byte> reply) {
  RowRequestReader reader(request, widths_);
  std::size_t written = 0;
  while (const auto section = reader.next()) {
    if (has_values(section->operation)) continue;
    const std::size_t values = section->keys.size() * widths_[section->table];
    require(values * sizeof(float) <= reply.size() - written, "a worker expects ", reply.size(),
            " bytes of rows, but asks for more");
    const std::span<float> rows(reinterpret_cast<float*>(reply.data() + written), values);
    if (section->operation == RowOperation::pull) {
      tables_[section->table].pull(section->keys, rows);
    } else {
      tables_[section->table].peek(section->keys, rows);
    }
    written += rows.size_bytes();
  }
  require(written == reply.size(), "a worker expects ", reply.size(), " bytes of rows and asks for ",
          written);
}

}  // namespace flotilla
