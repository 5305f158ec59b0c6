// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/data/bag_buffer.hpp"
#include "src/data/loader.hpp"

namespace flotilla {

/// Page-aligned floats, or bytes, which a device may page-lock.
struct FreeAligned {
  static constexpr std::size_t page = 4096;  // bytes
  void operator()(float* memory) const { ::operator delete[](memory, std::align_val_t{page}); }
};
using AlignedFloats = std::unique_ptr<float[], FreeAligned>;

/// One buffer for a batch: batch b goes through slot b mod slots.
struct alignas(64) BatchSlot {
  std::atomic<std::uint32_t> filled{0};  ///< b + 1 once batch b is filled (modulo 2³²)
  std::atomic<std::int64_t> parts{0};    ///< Finished parts of the batch
  AlignedFloats images;
  Storage pinned;  ///< Page-locks the buffer; may be empty
  std::vector<std::int32_t> labels;
  std::vector<std::int32_t> partner_labels;
  std::vector<float> target_values;
  std::vector<BagBuffer> bags;  ///< Bags of each part; after the last part those of the batch in the first
  Batch batch;
  std::mutex mutex;            ///< For the next members, and the batch's bad samples
  std::exception_ptr failure;  ///< Why the batch failed, at its lowest row; null: it did not
  std::int64_t failed_row = 0;

  std::span<std::uint8_t> bytes() const {
    return {reinterpret_cast<std::uint8_t*>(images.get()), batch.bytes.pixels.size()};
  }
  void fail(std::int64_t row, std::exception_ptr why);
  void replaced(std::int64_t sample);
  void bad(std::int64_t row, const std::string& why);
  void clear();  ///< To be called before it is filled again.
};

/// The sizes of a batch's buffers.
struct BatchLayout {
  std::int64_t rows = 0;
  std::int64_t sample_size = 0;
  std::optional<ByteImages> bytes{};  ///< Shape and scaling of samples that are bytes; empty: floats
  std::int64_t targets = 0;           ///< Numbers to be predicted for a sample; 0: labels
  bool partners = false;              ///< Rows have the labels of mixup partners too
  std::int64_t slots = 0;             ///< Bags of a sample
  bool weighted = false;              ///< Their ids have values
  std::int64_t part_rows = 0;         ///< Rows that one thread fills at a time

  std::int64_t parts() const { return (rows + part_rows - 1) / part_rows; }
};

/// A lock-free ring buffer between the threads that fill batches, part by part, and the one that takes them
/// in order. A thread that finds nothing to do sleeps.
class BatchRing {
 public:
  /// @param pin of LoaderOptions
  BatchRing(std::int64_t slots, const BatchLayout& layout, const PinMemory& pin);
  std::int64_t bytes() const { return bytes_; }
  BatchSlot& slot(std::int64_t number) { return slots_[static_cast<std::size_t>(number) % slots_.size()]; }

  /// Claims the next part to fill, counted over all batches. Any thread.
  std::int64_t claim() { return claimed_.fetch_add(1, std::memory_order_relaxed); }
  /// Waits until the slot of batch `number` is free; null when the ring was stopped.
  BatchSlot* wait_free(std::int64_t number);
  /// A part of batch `number` is filled; true for the last one of `parts`, whose thread publishes the batch.
  bool finish_part(std::int64_t number, std::int64_t parts);
  void publish(std::int64_t number);
  bool stopped() const { return stopped_.load(std::memory_order_relaxed); }

  /// Consumer: waits until batch `number` is filled. Adds the time spent asleep to `wait_ns`.
  BatchSlot& wait_filled(std::int64_t number, std::int64_t& wait_ns);
  void release(std::int64_t number);  ///< Consumer: its oldest batch, `number`, may be overwritten.
  void stop();                        ///< Wakes all threads that wait for a free slot.

 private:
  std::vector<BatchSlot> slots_;
  std::int64_t bytes_ = 0;
  std::uint32_t wake_every_ = 1;  ///< releases
  alignas(64) std::atomic<std::int64_t> claimed_{0};
  alignas(64) std::atomic<std::uint32_t> released_{0};
  std::atomic<bool> stopped_{false};
};

}  // namespace flotilla
