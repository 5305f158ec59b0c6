// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/row_tables.hpp"

#include "kernels/error.hpp"

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
      tables_[section->table].peek(section->keys, rows);
    }
    if (!is_float) mpi::encode(wire_, rows, reply.data() + written);
    written += bytes;
  }
  require(written == reply.size(), "a worker expects ", reply.size(), " bytes of rows and asks for ",
          written);
}

}  // namespace flotilla
