// SPDX-License-Identifier: Apache-2.0
#include "src/train/embeddings.hpp"

#include "kernels/error.hpp"
#include "kernels/trace.hpp"

namespace flotilla {

namespace {

constexpr std::size_t table = 0;

std::vector<std::size_t> widths_of(const EmbeddingBagsSpec& spec) {
  return {static_cast<std::size_t>(spec.width)};
}

int servers_of(const ServerLink& servers) {
  return servers.roles().table().count(mpi::Role::server);
}

}  // namespace

Embeddings::Pool::Pool(const EmbeddingBagsSpec& spec, bool per_slot)
    : bags(spec),
      found(spec.slots, per_slot),
      features(static_cast<std::size_t>(spec.batch * spec.features())) {}

void Embeddings::Pool::make_room() {
  const std::size_t needed = found.keys().size() * static_cast<std::size_t>(bags.spec().width);
  if (rows.size() < needed) rows.resize(needed + needed / 4);
}

std::span<float> Embeddings::Pool::used_rows() {
  return {rows.data(), found.keys().size() * static_cast<std::size_t>(bags.spec().width)};
}

void Embeddings::Pool::forward(const Batch& batch) {
  bags.forward(batch.images, batch.bags, found, used_rows(), features);
}

Embeddings::Embeddings(const Parts& parts)
    : parts_(parts),
      training_(parts.training, parts.per_slot),
      validation_(parts.validation, parts.per_slot),
      exchange_(widths_of(parts.training), servers_of(parts.servers)),
      pulls_(widths_of(parts.training), servers_of(parts.servers)) {
  exchange_.begin();
}

void Embeddings::fetch(Pool& pool, bool make, std::int64_t step) {
  const trace::Span span("pull rows");
  parts_.watchdog.beat("pull rows from the servers", step);
  pool.make_room();
  pulls_.begin();
  if (make) {
    pulls_.pull(table, pool.found.keys(), pool.used_rows());
  } else {
    pulls_.peek(table, pool.found.keys(), pool.used_rows());
  }
  mpi::PushPullWorker& servers = parts_.servers.exchange();
  servers.start_rows(step, pulls_.payloads());
  servers.wait();
  pulls_.finish();
}

std::span<float> Embeddings::features(const Batch& batch, std::int64_t step) {
  if (!here_) {
    training_.found.find(batch.bags);
    fetch(training_, true, step);
  }
  here_ = false;
  training_.forward(batch);
  return training_.features;
}

std::span<float> Embeddings::evaluate(const Batch& batch, std::int64_t step) {
  validation_.found.find(batch.bags);
  fetch(validation_, false, step);
  validation_.forward(batch);
  return validation_.features;
}

void Embeddings::add_gradient(const Batch& batch, std::span<const float> gradient) {
  const trace::Span span("gradients of rows");
  const std::size_t needed = training_.used_rows().size();
  if (gradients_.size() < needed) gradients_.resize(needed + needed / 4);
  const auto gradients = std::span(gradients_).first(needed);
  training_.bags.backward(batch.bags, training_.found, gradient, gradients);
  exchange_.push(table, training_.found.keys(), gradients);
}

void Embeddings::look_ahead(const Batch& next) {
  training_.found.find(next.bags);
  training_.make_room();
  exchange_.pull(table, training_.found.keys(), training_.used_rows());
  coming_ = true;
}

std::span<const mpi::Payload> Embeddings::payloads() {
  return exchange_.payloads();
}

void Embeddings::finish() {
  exchange_.finish();
  exchange_.begin();
  here_ = coming_;
  coming_ = false;
}

}  // namespace flotilla
