// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/row_exchange.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "kernels/error.hpp"
#include "src/parameter_server/protocol/row_placement.hpp"

namespace flotilla {

RowExchange::RowExchange(std::vector<std::size_t> widths, int servers, mpi::Wire wire)
    : widths_(std::move(widths)),
      wire_(wire),
      servers_(static_cast<std::size_t>(servers)),
      payloads_(static_cast<std::size_t>(servers)) {
  for (Server& server : servers_) server.request = RowRequest(wire);
  require(servers > 0 && servers <= std::numeric_limits<std::uint16_t>::max(), "rows on ", servers,
          " servers");
}

void RowExchange::begin() {
  for (Server& server : servers_) {
    server.request.clear();
    server.expected = 0;
  }
  wanted_.clear();
  wanted_owners_.clear();
}

void RowExchange::partition(RowOperation operation, std::size_t table, std::span<const std::uint64_t> keys,
                            std::span<const float> values, Owners& owners) {
  const std::size_t width = widths_.at(table);
  const std::size_t first = owners.size();
  owners.resize(first + keys.size());
  for (Server& server : servers_) server.rows = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const int owner = server_of(keys[i], static_cast<int>(servers_.size()));
    owners[first + i] = static_cast<std::uint16_t>(owner);
    ++servers_[static_cast<std::size_t>(owner)].rows;
  }
  for (Server& server : servers_) {
    if (server.rows == 0) continue;
    const RowRequest::Room room = server.request.add_section(table, operation, server.rows, width);
    server.next_key = room.keys.data();
    server.next_values = room.values.data();
  }
  const float* from = values.data();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Server& server = servers_[owners[first + i]];
    *server.next_key++ = keys[i];
    if (!has_values(operation)) continue;
    mpi::encode(wire_, {from, width}, server.next_values);
    server.next_values += width * mpi::bytes_per_value(wire_);
    from += width;
  }
}

void RowExchange::enqueue_push(RowOperation operation, std::size_t table, std::span<const std::uint64_t> keys,
                               std::span<const float> values) {
  require(values.size() == keys.size() * widths_.at(table), values.size(), " values for ", keys.size(),
          " rows of table ", table);
  sent_owners_.clear();
  partition(operation, table, keys, values, sent_owners_);
}

void RowExchange::enqueue_pull(RowOperation operation, std::size_t table, std::span<const std::uint64_t> keys,
                               std::span<float> rows) {
  const std::size_t width = widths_.at(table);
  require(rows.size() == keys.size() * width, "room for ", rows.size(), " values of ", keys.size(),
          " rows of table ", table);
  partition(operation, table, keys, {}, wanted_owners_);
  for (Server& server : servers_) server.expected += server.rows * width * mpi::bytes_per_value(wire_);
  wanted_.push_back({.width = width, .rows = rows});
}

void RowExchange::pull(std::size_t table, std::span<const std::uint64_t> keys, std::span<float> rows) {
  enqueue_pull(RowOperation::pull, table, keys, rows);
}
void RowExchange::pull_without_insert(std::size_t table, std::span<const std::uint64_t> keys,
                                      std::span<float> rows) {
  enqueue_pull(RowOperation::pull_without_insert, table, keys, rows);
}
void RowExchange::push(std::size_t table, std::span<const std::uint64_t> keys,
                       std::span<const float> gradients) {
  enqueue_push(RowOperation::push, table, keys, gradients);
}
void RowExchange::add(std::size_t table, std::span<const std::uint64_t> keys, std::span<const float> deltas) {
  enqueue_push(RowOperation::add, table, keys, deltas);
}

std::span<const mpi::Payload> RowExchange::payloads() {
  for (std::size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    const std::size_t bytes = std::max(server.request.bytes().size(), server.expected);
    if (bytes > mpi::largest_payload)
      throw UserError(cat("the rows of one step take ", bytes, " bytes to or from server ", i,
                          ", but a message at "
                          "most ",
                          mpi::largest_payload,
                          "; use a smaller train.batch_size or server.push_every, or more servers"));
    if (server.reply.size() < server.expected) server.reply.resize(server.expected);
    payloads_[i] = {.out = server.request.bytes(), .back = std::span(server.reply).first(server.expected)};
  }
  return payloads_;
}

void RowExchange::finish() {
  for (Server& server : servers_) server.next_row = server.reply.data();
  const std::uint16_t* owner = wanted_owners_.data();
  for (const Wanted& wanted : wanted_) {
    float* const end = wanted.rows.data() + wanted.rows.size();
    for (float* to = wanted.rows.data(); to != end; to += wanted.width) {
      Server& server = servers_[*owner++];
      mpi::decode(wire_, server.next_row, {to, wanted.width});
      server.next_row += wanted.width * mpi::bytes_per_value(wire_);
    }
  }
}

}  // namespace flotilla
