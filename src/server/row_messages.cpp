// SPDX-License-Identifier: Apache-2.0
#include "src/server/row_messages.hpp"

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

std::size_t values_bytes(RowOperation operation, std::size_t rows, std::size_t width) {
  if (!has_values(operation)) return 0;
  return (rows * width * sizeof(float) + 7) / 8 * 8;
}

}  // namespace

RowRequest::Room RowRequest::add_section(std::size_t table, RowOperation operation, std::size_t rows,
                                         std::size_t width) {
  const std::size_t values = values_bytes(operation, rows, width);
  const std::size_t bytes = sizeof(SectionHead) + rows * sizeof(std::uint64_t) + values;
  if (buffer_.size() < used_ + bytes) buffer_.resize(std::max(used_ + bytes, buffer_.size() * 3 / 2));
  std::byte* at = buffer_.data() + used_;
  used_ += bytes;
  const SectionHead head{.table = static_cast<std::uint32_t>(table), .operation = operation, .rows = rows};
  std::memcpy(at, &head, sizeof(head));
  at += sizeof(head);
  const std::span keys(reinterpret_cast<std::uint64_t*>(at), rows);
  at += keys.size_bytes();
  std::span<float> room;
  if (values > 0) {
    std::memset(at + values - sizeof(float), 0, sizeof(float));  // What fills up is sent, too.
    room = {reinterpret_cast<float*>(at), rows * width};
  }
  return {.keys = keys, .values = room};
}

RowRequestReader::RowRequestReader(std::span<const std::byte> request, std::span<const std::size_t> widths)
    : rest_(request), widths_(widths) {
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
      (head.rows * sizeof(std::uint64_t) + values_bytes(head.operation, head.rows, width)) <= rest_.size();
  require(fits, "a request about rows says ", head.rows, " rows of table ", head.table, ", but has ",
          rest_.size(), " bytes left");
  const std::size_t keys = head.rows * sizeof(std::uint64_t);
  RowSection section{.table = head.table,
                     .operation = head.operation,
                     .keys = {reinterpret_cast<const std::uint64_t*>(rest_.data()), head.rows}};
  if (has_values(head.operation))
    section.values = {reinterpret_cast<const float*>(rest_.data() + keys), head.rows * width};
  rest_ = rest_.subspan(keys + values_bytes(head.operation, head.rows, width));
  return section;
}

}  // namespace flotilla
