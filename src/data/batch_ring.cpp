// SPDX-License-Identifier: Apache-2.0
#include "src/data/batch_ring.hpp"

#include <algorithm>

#include "kernels/trace.hpp"

namespace flotilla {

namespace {

std::uint32_t free_for(std::int64_t number) {
  return static_cast<std::uint32_t>(2 * number);
}
std::uint32_t filled_with(std::int64_t number) {
  return static_cast<std::uint32_t>(2 * number + 1);
}

}  // namespace

BatchRing::BatchRing(std::int64_t slots, std::int64_t batch, std::int64_t sample_size)
    : slots_(static_cast<std::size_t>(slots)) {
  const auto values = static_cast<std::size_t>(batch * sample_size);
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    BatchSlot& slot = slots_[i];
    slot.images = AlignedFloats(new (std::align_val_t{64}) float[values]);
    std::fill_n(slot.images.get(), values, 0.0F);  // touches the pages: no faults in the first epoch
    slot.labels.assign(static_cast<std::size_t>(batch), 0);
    slot.batch = {.images = {slot.images.get(), values}, .labels = slot.labels, .valid = 0};
    slot.state = free_for(static_cast<std::int64_t>(i));
    bytes_ += static_cast<std::int64_t>(values * sizeof(float) + slot.labels.size() * sizeof(std::int32_t));
  }
}

void BatchRing::set(BatchSlot& slot, std::uint32_t state) {
  slot.state.store(state, std::memory_order_release);
  slot.state.notify_all();
}

BatchSlot* BatchRing::wait_free(std::int64_t number) {
  BatchSlot& wanted = slot(number);
  for (;;) {
    const std::uint32_t state = wanted.state.load(std::memory_order_acquire);
    // After the load: if stop() comes later, the state changes and the wait below returns.
    if (stopped_.load(std::memory_order_acquire)) return nullptr;
    if (state == free_for(number)) return &wanted;
    wanted.state.wait(state, std::memory_order_acquire);
  }
}

void BatchRing::publish(std::int64_t number) {
  set(slot(number), filled_with(number));
}

BatchSlot& BatchRing::wait_filled(std::int64_t number, std::int64_t& wait_ns) {
  BatchSlot& wanted = slot(number);
  std::uint32_t state = wanted.state.load(std::memory_order_acquire);
  if (state == filled_with(number)) return wanted;
  const trace::Span span("wait for batch");
  const std::int64_t begin = trace::now_ns();
  while (state != filled_with(number)) {
    wanted.state.wait(state, std::memory_order_acquire);
    state = wanted.state.load(std::memory_order_acquire);
  }
  wait_ns += trace::now_ns() - begin;
  return wanted;
}

void BatchRing::release(std::int64_t number) {
  set(slot(number), free_for(number + static_cast<std::int64_t>(slots_.size())));
}

void BatchRing::stop() {
  stopped_.store(true, std::memory_order_release);
  for (BatchSlot& slot : slots_) {
    slot.state.fetch_add(1, std::memory_order_acq_rel);  // any change wakes; nobody reads the batch any more
    slot.state.notify_all();
  }
}

}  // namespace flotilla
