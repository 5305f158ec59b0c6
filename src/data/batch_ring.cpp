// SPDX-License-Identifier: Apache-2.0
#include "src/data/batch_ring.hpp"

#include <algorithm>
#include <utility>

#include "kernels/trace.hpp"

namespace flotilla {

// All stores that a thread may sleep on are sequentially consistent: with a weaker one the look for sleepers
// inside notify_all could overtake the store, and a wake-up be lost.

void BatchSlot::fail(std::int64_t row, std::exception_ptr why) {
  const std::lock_guard lock(mutex);
  if (failure != nullptr && failed_row <= row) return;
  failure = std::move(why);
  failed_row = row;
}

void BatchSlot::replaced(std::int64_t sample) {
  const std::lock_guard lock(mutex);
  batch.first_replaced = batch.replaced == 0 ? sample : std::min(batch.first_replaced, sample);
  ++batch.replaced;
}

void BatchSlot::bad(std::int64_t row, const std::string& why) {
  const std::lock_guard lock(mutex);
  batch.bad[row] = why;
}

void BatchSlot::clear() {
  failure = nullptr;
  batch.bad.clear();
  batch.replaced = 0;
  batch.first_replaced = -1;
}

BatchRing::BatchRing(std::int64_t slots, const BatchLayout& layout, const PinMemory& pin)
    : slots_(static_cast<std::size_t>(slots)),
      // Waking a sleeping reader costs the training thread 7 µs: it does so once half of what was read ahead
      // is used up.
      wake_every_(static_cast<std::uint32_t>(std::max<std::int64_t>(1, slots / 2))) {
  const auto values = static_cast<std::size_t>(layout.rows * layout.sample_size);
  const std::size_t floats = layout.bytes ? (values + sizeof(float) - 1) / sizeof(float) : values;
  for (BatchSlot& slot : slots_) {
    constexpr std::size_t page = FreeAligned::page / sizeof(float);
    slot.images =
        AlignedFloats(new (std::align_val_t{FreeAligned::page}) float[(floats + page - 1) / page * page]);
    if (pin && floats > 0) slot.pinned = pin({slot.images.get(), floats});
    std::fill_n(slot.images.get(), floats, 0.0F);  // touches the pages: no faults in the first epoch
    slot.labels.assign(static_cast<std::size_t>(layout.rows), 0);
    slot.target_values.assign(static_cast<std::size_t>(layout.rows * layout.targets), 0.0F);
    if (layout.partners) slot.partner_labels.assign(static_cast<std::size_t>(layout.rows), 0);
    slot.batch = {.images = {slot.images.get(), layout.bytes ? 0 : values},
                  .labels = slot.labels,
                  .target_values = slot.target_values,
                  .valid = 0,
                  .partner_labels = slot.partner_labels};
    if (layout.bytes) {
      slot.batch.bytes = *layout.bytes;
      slot.batch.bytes.pixels = {reinterpret_cast<const std::uint8_t*>(slot.images.get()), values};
    }
    if (layout.slots > 0) {
      // The first holds the whole batch: the others are appended to it.
      slot.bags.emplace_back(layout.rows, layout.slots, layout.weighted);
      for (std::int64_t part = 1; part < layout.parts(); ++part)
        slot.bags.emplace_back(layout.part_rows, layout.slots, layout.weighted);
      for (std::int64_t bag = 0; bag < layout.rows * layout.slots; ++bag) slot.bags[0].end_bag();
      slot.batch.bags = slot.bags[0].bags();
    }
    for (const BagBuffer& bags : slot.bags) bytes_ += bags.bytes();
    bytes_ += static_cast<std::int64_t>(
        floats * sizeof(float) + (slot.labels.size() + slot.partner_labels.size()) * sizeof(std::int32_t));
  }
}

BatchSlot* BatchRing::wait_free(std::int64_t number) {
  // Differences modulo 2³², so that the counters may wrap.
  const auto needed = static_cast<std::uint32_t>(number - std::ssize(slots_) + 1);
  for (;;) {
    const std::uint32_t released = released_.load();
    // Checked after the load: if stop() is called later, released_ changes and the wait below returns.
    if (stopped_.load()) return nullptr;
    if (static_cast<std::int32_t>(released - needed) >= 0) return &slot(number);
    released_.wait(released);
  }
}

bool BatchRing::finish_part(std::int64_t number, std::int64_t parts) {
  std::atomic<std::int64_t>& finished = slot(number).parts;
  // Acquires what the other parts' threads wrote: publish() passes it on to the consumer.
  if (finished.fetch_add(1, std::memory_order_acq_rel) + 1 < parts) return false;
  finished.store(0, std::memory_order_relaxed);
  return true;
}

void BatchRing::publish(std::int64_t number) {
  std::atomic<std::uint32_t>& filled = slot(number).filled;
  filled.store(static_cast<std::uint32_t>(number + 1));
  filled.notify_all();
}

BatchSlot& BatchRing::wait_filled(std::int64_t number, std::int64_t& wait_ns) {
  BatchSlot& wanted = slot(number);
  const auto goal = static_cast<std::uint32_t>(number + 1);
  std::uint32_t filled = wanted.filled.load(std::memory_order_acquire);
  if (filled == goal) return wanted;
  const trace::Span span("wait for batch");
  const std::int64_t begin = trace::now_ns();
  released_.notify_all();  // a reader may sleep although slots are free, because it was not notified yet
  while (filled != goal) {
    wanted.filled.wait(filled, std::memory_order_acquire);
    filled = wanted.filled.load(std::memory_order_acquire);
  }
  wait_ns += trace::now_ns() - begin;
  return wanted;
}

void BatchRing::release(std::int64_t number) {
  slot(number).clear();
  const std::uint32_t released = released_.fetch_add(1) + 1;
  if (released % wake_every_ == 0) released_.notify_all();
}

void BatchRing::stop() {
  stopped_.store(true);
  released_.fetch_add(1);  // any change wakes
  released_.notify_all();
}

}  // namespace flotilla
