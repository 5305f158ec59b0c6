// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/protocol/row_messages.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/error.hpp"

namespace flotilla {

namespace {

struct SectionHead {
  std::uint32_t table = 0;
  RowOperation operation = RowOperation::pull;
  std::uint64_t rows = 0;
};
static_assert(sizeof(SectionHead) == 16);

constexpr std::size_t alignment = 8;  // Bytes, of every section

/// Bytes of the values, without their padding.
std::size_t values_bytes(RowOperation operation, std::size_t rows, std::size_t width, mpi::Wire wire) {
  return has_values(operation) ? rows * width * mpi::bytes_per_value(wire) : 0;
}

std::size_t filled_up(std::size_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

RowRequest::Room RowRequest::add_section(std::size_t table, RowOperation operation, std::size_t rows,
                                         std::size_t width) {
  const std::size_t values = values_bytes(operation, rows, width, wire_);
  const std::size_t filled = filled_up(values);
  const std::size_t bytes = sizeof(SectionHead) + rows * sizeof(std::uint64_t) + filled;
  if (buffer_.size() < used_ + bytes) buffer_.resize(std::max(used_ + bytes, buffer_.size() * 3 / 2));
  std::byte* at = buffer_.data() + used_;
  used_ += bytes;
  const SectionHead head{.table = static_cast<std::uint32_t>(table), .operation = operation, .rows = rows};
  std::memcpy(at, &head, sizeof(head));
  at += sizeof(head);
  const std::span keys(reinterpret_cast<std::uint64_t*>(at), rows);
  at += keys.size_bytes();
  std::memset(at + values, 0, filled - values);  // What fills up is sent, too.
  return {.keys = keys, .values = {at, values}};
}

RowRequestReader::RowRequestReader(std::span<const std::byte> request, std::span<const std::size_t> widths,
                                   mpi::Wire wire)
    : rest_(request), widths_(widths), wire_(wire) {
  require(reinterpret_cast<std::uintptr_t>(request.data()) % alignof(std::uint64_t) == 0,
          "a request about rows does not start on 8 bytes");
}

std::optional<RowSection> RowRequestReader::next() {
  if (rest_.empty()) return std::nullopt;
  SectionHead head;
  require(rest_.size() >= sizeof(head), "a request about rows ends inside a head");
  std::memcpy(&head, rest_.data(), sizeof(head));
  rest_ = rest_.subspan(sizeof(head));
  require(head.table < widths_.size() && head.operation <= RowOperation::add,
          "a request about rows names table ", head.table, " of ", widths_.size(), " and operation ",
          static_cast<std::uint32_t>(head.operation));
  const std::size_t width = widths_[head.table];
  // Divided first: a product might wrap.
  const bool fits =
      head.rows <= rest_.size() / sizeof(std::uint64_t) &&
      head.rows * sizeof(std::uint64_t) + filled_up(values_bytes(head.operation, head.rows, width, wire_)) <=
          rest_.size();
  require(fits, "a request about rows says ", head.rows, " rows of table ", head.table, ", but has ",
          rest_.size(), " bytes left");
  const std::size_t keys = head.rows * sizeof(std::uint64_t);
  RowSection section{.table = head.table,
                     .operation = head.operation,
                     .keys = {reinterpret_cast<const std::uint64_t*>(rest_.data()), head.rows}};
  const std::size_t values = values_bytes(head.operation, head.rows, width, wire_);
  section.values = rest_.subspan(keys, values);
  rest_ = rest_.subspan(keys + filled_up(values));
  return section;
}

}  // namespace flotilla
