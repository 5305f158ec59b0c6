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

Embeddings::Embeddings(const Parts& parts)
    : parts_(parts),
      training_(parts.training, parts.per_slot),
      validation_(parts.validation, parts.per_slot),
      exchange_(widths_of(parts.training), servers_of(parts.servers)),
      pulls_(widths_of(parts.training), servers_of(parts.servers)) {
  exchange_.begin();
}

void Embeddings::fetch(EmbeddingPool& pool, bool make, std::int64_t step) {
  const trace::Span span("pull rows");
  parts_.watchdog.beat("pull rows from the servers", step);
  pulls_.begin();
  if (make) {
    pulls_.pull(table, pool.keys(), pool.rows());
  } else {
    pulls_.peek(table, pool.keys(), pool.rows());
  }
  mpi::PushPullWorker& servers = parts_.servers.exchange();
  servers.start_rows(step, pulls_.payloads());
  servers.wait();
  pulls_.finish();
}

std::span<float> Embeddings::features(const Batch& batch, std::int64_t step) {
  if (!here_) {
    training_.find(batch);
    fetch(training_, true, step);
  }
  here_ = false;
  return training_.forward(batch);
}

std::span<float> Embeddings::evaluate(const Batch& batch, std::int64_t step) {
  validation_.find(batch);
  fetch(validation_, false, step);
  return validation_.forward(batch);
}

void Embeddings::add_gradient(const Batch& batch, std::span<const float> gradient) {
  const trace::Span span("gradients of rows");
  const std::size_t needed = training_.rows().size();
  if (gradients_.size() < needed) gradients_.resize(needed + needed / 4);
  const auto gradients = std::span(gradients_).first(needed);
  training_.backward(batch, gradient, gradients);
  exchange_.push(table, training_.keys(), gradients);
}

void Embeddings::look_ahead(const Batch& next) {
  training_.find(next);
  exchange_.pull(table, training_.keys(), training_.rows());
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
