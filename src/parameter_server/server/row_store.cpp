// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/server/row_store.hpp"

#include <fmt/format.h>

#include "src/observe/console.hpp"
#include "src/optim/update_rule.hpp"
#include "src/parameter_server/protocol/serve_plan.hpp"

namespace flotilla {

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

}  // namespace

std::vector<TableSpec> tables_of(const ModelConfig& model) {
  if (!model.has_embeddings()) return {};
  return {{.name = "embeddings", .width = static_cast<std::size_t>(model.embedding_width)}};
}

RowStore::RowStore(const Config& config)
    : specs_(tables_of(config.model)), tables_(specs_of(config), config.server()->wire) {
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

}  // namespace flotilla
