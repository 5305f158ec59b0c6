// SPDX-License-Identifier: Apache-2.0
#include "src/parameter_server/worker/embeddings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.hpp"
#include "kernels/trace.hpp"
#include "src/observe/console.hpp"

namespace flotilla {

EmbeddingBagsSpec bags_of(const ModelConfig& model, const Dataset& data, std::int64_t batch) {
  return {.batch = batch,
          .dense = data.sample_shape().size(),
          .slots = data.slots(),
          .width = model.embedding_width};
}

EmbeddingPool::EmbeddingPool(const EmbeddingBagsSpec& spec, bool per_slot)
    : bags_(spec),
      found_(spec.slots, per_slot),
      features_(static_cast<std::size_t>(spec.batch * spec.features())) {}

std::span<const std::uint64_t> EmbeddingPool::find(const Batch& batch) {
  found_.find(batch.bags);
  const std::size_t needed = found_.keys().size() * static_cast<std::size_t>(bags_.spec().width);
  if (rows_.size() < needed) rows_.resize(needed + needed / 4);
  return found_.keys();
}

std::span<float> EmbeddingPool::rows() {
  return {rows_.data(), found_.keys().size() * static_cast<std::size_t>(bags_.spec().width)};
}

std::span<float> EmbeddingPool::forward(const Batch& batch) {
  bags_.forward(batch.images, batch.bags, found_, rows(), features_);
  return features_;
}

void EmbeddingPool::backward(const Batch& batch, std::span<const float> gradient,
                             std::span<float> drows) const {
  bags_.backward(batch.bags, found_, gradient, drows);
}

namespace {

constexpr std::size_t table = 0;

std::vector<std::size_t> widths_of(const EmbeddingBagsSpec& spec) {
  return {static_cast<std::size_t>(spec.width)};
}

int servers_of(const ServerLink& servers) {
  return servers.roles().table().count(mpi::Role::server);
}

/// The first floats of `array`, which grows by more than is needed: batches differ by little.
std::span<float> first_of(std::vector<float>& array, std::size_t needed) {
  if (array.size() < needed) array.resize(needed + needed / 4);
  return std::span(array).first(needed);
}

}  // namespace

Embeddings::Embeddings(const Parts& parts)
    : parts_(parts),
      training_(parts.ahead, Held{EmbeddingPool(parts.training, parts.per_slot)}),
      validation_(parts.validation, parts.per_slot),
      exchanges_(parts.ahead, RowExchange(widths_of(parts.training), servers_of(parts.servers), parts.wire)),
      pulls_(widths_of(parts.training), servers_of(parts.servers), parts.wire) {
  if (parts.rule) local_.emplace(widths_of(parts.training)[table], *parts.rule);
  for (RowExchange& exchange : exchanges_) exchange.begin();
}

void Embeddings::fetch(RowOperation operation, std::span<const std::uint64_t> keys, std::span<float> rows,
                       std::int64_t step) {
  const trace::Span span("pull rows");
  parts_.watchdog.beat("pull rows from the servers", step);
  pulls_.begin();
  if (operation == RowOperation::pull) {
    pulls_.pull(table, keys, rows);
  } else {
    pulls_.pull_without_insert(table, keys, rows);
  }
  mpi::PushPullWorker& servers = parts_.servers.connection();
  servers.start_rows(step, pulls_.payloads());
  servers.wait();
  pulls_.finish();
}

void Embeddings::fetch_for_training(std::span<const std::uint64_t> keys, std::span<float> rows,
                                    std::int64_t step) {
  const std::int64_t begin_ns = trace::now_ns();
  const std::int64_t sent_before = parts_.servers.connection().sent_bytes();
  fetch(RowOperation::pull, keys, rows, step);
  sent_bytes_ += parts_.servers.connection().sent_bytes() - sent_before;
  waited_ns_ += trace::now_ns() - begin_ns;
}

std::span<float> Embeddings::room_of(std::span<const std::uint64_t> keys) {
  return first_of(room_, keys.size() * widths_of(parts_.training)[table]);
}

std::span<float> Embeddings::features(const Batch& batch, std::int64_t step) {
  Held& held = training_[now_];
  if (!held.here) held.pool.find(batch);
  if (local_) {
    const auto missing = local_->find(held.pool.keys());
    const std::span<float> pulled = room_of(missing);
    if (!missing.empty()) fetch_for_training(missing, pulled, step);
    local_->take(pulled);
    local_->read(held.pool.rows());
  } else if (!held.here) {
    fetch_for_training(held.pool.keys(), held.pool.rows(), step);
  }
  held.here = false;
  return held.pool.forward(batch);
}

std::span<float> Embeddings::evaluate(const Batch& batch, std::int64_t step) {
  validation_.find(batch);
  fetch(RowOperation::pull_without_insert, validation_.keys(), validation_.rows(), step);
  return validation_.forward(batch);
}

std::span<float> Embeddings::gradients() {
  return first_of(gradients_, training_[now_].pool.rows().size());
}

void Embeddings::add_gradient(const Batch& batch, std::span<const float> gradient, const LossScale& scale) {
  const trace::Span span("gradients of rows");
  training_[now_].pool.backward(batch, gradient, gradients());
  if (scale.enabled()) {
    finite_ = std::ranges::all_of(gradients(), [](float value) { return std::isfinite(value); });
    for (float& value : gradients()) value *= 1.0F / scale.scale();
  }
  if (!local_) exchanges_[next_].push(table, training_[now_].pool.keys(), gradients());
}

void Embeddings::prefetch_rows(const Batch& batch) {
  Held& held = training_[now_];
  held.pool.find(batch);
  exchanges_[next_].pull(table, held.pool.keys(), held.pool.rows());
  held.here = true;
  now_ = (now_ + 1) % training_.size();
}

void Embeddings::fetch_next(const Batch& next, std::int64_t step) {
  Held& held = training_[(now_ + 1) % training_.size()];
  if (held.here) return;
  held.pool.find(next);
  fetch_for_training(held.pool.keys(), held.pool.rows(), step);
  held.here = true;
}

void Embeddings::forget_rows() {
  for (Held& one : training_) one.here = false;
}

void Embeddings::train(double learning_rate, std::int64_t step) {
  const trace::Span span("train rows");
  local_->train(gradients(), static_cast<float>(learning_rate), step);
}

void Embeddings::push_differences(float share) {
  const std::span<const std::uint64_t> keys = local_->trained();
  const std::span<float> pulled = room_of(keys);
  const std::span<float> differences = first_of(differences_, pulled.size());
  local_->push(share, differences);
  exchanges_[next_].add(table, keys, differences);
  exchanges_[next_].pull(table, keys, pulled);
}

std::span<const mpi::Payload> Embeddings::payloads() {
  under_way_ = next_;
  next_ = (next_ + 1) % exchanges_.size();
  return exchanges_[under_way_].payloads();
}

void Embeddings::finish() {
  exchanges_[under_way_].finish();
  exchanges_[under_way_].begin();
  if (local_) local_->apply_pulled(room_of(local_->trained()));
}

std::vector<std::string> Embeddings::report(const mpi::Communicator& workers) const {
  if (!local_) return {};
  std::array<std::int64_t, 2> most{static_cast<std::int64_t>(local_->rows()),
                                   static_cast<std::int64_t>(local_->memory_bytes())};
  std::array<std::int64_t, 1> not_finite{local_->not_finite()};
  workers.all_reduce(std::span<std::int64_t>(most), mpi::Op::max);
  workers.all_reduce(std::span<std::int64_t>(not_finite));
  std::vector<std::string> lines = {
      fmt::format("a worker trained at most {} rows, {}", most[0], bytes_text(most[1]))};
  if (not_finite[0] > 0)
    lines.push_back(fmt::format("left out: gradients of {} rows, which were not finite", not_finite[0]));
  return lines;
}

}  // namespace flotilla
