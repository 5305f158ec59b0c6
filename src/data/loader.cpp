// SPDX-License-Identifier: Apache-2.0
#include "src/data/loader.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/error.hpp"
#include "src/data/bag_buffer.hpp"
#include "src/data/batch_plan.hpp"
#include "src/data/batch_ring.hpp"

namespace flotilla {

namespace {

/// Parts smaller than this cost more to share out than they gain: a batch of MNIST is one part.
constexpr std::int64_t min_part_values = 65536;

/// The variation of a sample. An odd factor: no two samples of an epoch get the same one.
std::uint64_t variation_of(const Selection& selection, std::int64_t sample) {
  return selection.variation + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(sample);
}

/// Rows that one thread reads at a time: small enough that the threads end a batch together.
std::int64_t rows_per_part(const BatchPlan& plan, std::int64_t sample_values, std::int64_t threads) {
  if (threads <= 1) return plan.batch();
  const auto rounded_up = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  std::int64_t rows =
      std::max(rounded_up(plan.batch(), 4 * threads), rounded_up(min_part_values, sample_values));
  if (plan.mixes()) rows += rows % 2;  // a pair stays together
  return std::min(rows, plan.batch());
}

/// Whether samples are returned as bytes, and how.
std::optional<ByteImages> bytes_of(const Dataset& data, const BatchPlan& plan, bool asked) {
  const std::optional<ByteScaling> scaling = data.scaling();
  if (!asked || !scaling || plan.mixes()) return {};
  const Shape& sample = data.sample_shape();
  return ByteImages{
      .pixels = {}, .shape = {plan.batch(), sample[0], sample[1], sample[2]}, .scaling = *scaling};
}

BatchLayout layout_of(const Dataset& data, const BatchPlan& plan, const LoaderOptions& options) {
  const std::int64_t size = data.sample_shape().size();
  return {.rows = plan.batch(),
          .sample_size = size,
          .bytes = bytes_of(data, plan, options.bytes),
          .targets = data.target_width(),
          .partners = plan.mixes(),
          .slots = data.slots(),
          .weighted = data.weighted(),
          .part_rows = rows_per_part(plan, std::max<std::int64_t>(size + data.slots(), 1), options.threads)};
}

/// The state of a thread that fills batches.
struct alignas(64) Workspace {
  std::vector<std::int64_t> indices;     ///< Sample indices of a part
  std::unique_ptr<BagReader> reader;     ///< Click data
  std::atomic<std::int64_t> read_ns{0};  ///< Written by its thread only
};

class ThreadedLoader final : public Loader {
 public:
  ThreadedLoader(const Dataset& data, std::unique_ptr<const BatchPlan> plan, const LoaderOptions& options)
      : data_(data),
        plan_(std::move(plan)),
        layout_(layout_of(data, *plan_, options)),
        parts_(layout_.parts()),
        keep_bad_(options.keep_bad),
        kept_(options.kept),
        // `kept` batches are in use while `prefetch` are ahead.
        ring_(options.threads == 0 ? kept_ : options.prefetch + kept_, layout_, options.pin),
        workspaces_(static_cast<std::size_t>(std::max<std::int64_t>(options.threads, 1))) {
    for (Workspace& workspace : workspaces_) {
      workspace.indices.resize(static_cast<std::size_t>(layout_.part_rows));
      if (layout_.slots > 0) workspace.reader = data.bag_reader();
    }
    try {
      for (std::int64_t i = 0; i < options.threads; ++i) {
        trace::Sink* sink = options.sink ? options.sink(static_cast<int>(i)) : nullptr;
        Workspace& workspace = workspaces_[static_cast<std::size_t>(i)];
        threads_.emplace_back([this, sink, &workspace] { run(sink, workspace); });
      }
    } catch (const std::system_error& error) {
      stop();
      throw LibraryError("std::thread", cat(error.what(), "; data.threads = ", options.threads));
    } catch (...) {
      stop();
      throw;
    }
  }
  ThreadedLoader(const ThreadedLoader&) = delete;
  ThreadedLoader& operator=(const ThreadedLoader&) = delete;
  // Joins while an exception is being thrown too: the threads only read files, stop after at most one sample,
  // and must not outlive the data set.
  ~ThreadedLoader() override { stop(); }

  const Batch& next() override {
    const std::int64_t number = ++held_;
    if (const std::int64_t over = number - kept_; over >= 0 && over < plan_->batches()) ring_.release(over);
    if (number >= plan_->batches()) return end();
    if (threads_.empty()) read_here(number);
    BatchSlot& slot = ring_.wait_filled(number, wait_ns_);
    if (slot.failure) std::rethrow_exception(slot.failure);
    return slot.batch;
  }
  std::int64_t wait_ns() const override { return wait_ns_; }
  std::int64_t read_ns() const override {
    std::int64_t sum = 0;
    for (const Workspace& workspace : workspaces_) sum += workspace.read_ns.load(std::memory_order_relaxed);
    return sum;
  }
  std::int64_t buffer_bytes() const override { return ring_.bytes(); }

 private:
  void run(trace::Sink* sink, Workspace& workspace) {
    trace::record_this_thread(sink);
    for (;;) {
      const std::int64_t part = ring_.claim();
      const std::int64_t number = part / parts_;
      if (number >= plan_->batches()) return;
      BatchSlot* slot = ring_.wait_free(number);
      if (slot == nullptr) return;
      fill(number, part % parts_, *slot, workspace);
    }
  }

  void read_here(std::int64_t number) {
    const std::int64_t begin = trace::now_ns();
    for (std::int64_t part = 0; part < parts_; ++part) fill(number, part, ring_.slot(number), workspaces_[0]);
    wait_ns_ += trace::now_ns() - begin;
  }

  void fill(std::int64_t number, std::int64_t part, BatchSlot& slot, Workspace& workspace) noexcept {
    const std::int64_t first = part * layout_.part_rows;
    std::int64_t row = first;
    Selection selection;
    {
      const trace::Span span("read batch");
      const std::int64_t begin_ns = trace::now_ns();
      try {
        const std::int64_t end = std::min(first + layout_.part_rows, plan_->batch());
        const auto samples = std::span(workspace.indices).first(static_cast<std::size_t>(end - first));
        if (part == 0) plan_->announce(number, data_);
        selection = plan_->select(number, first, samples);
        BagBuffer* const bags = layout_.slots > 0 ? &slot.bags[static_cast<std::size_t>(part)] : nullptr;
        if (bags != nullptr) bags->clear();
        for (; row < end && !ring_.stopped(); ++row) {
          if (row >= selection.valid) {
            pad_row(slot, row, bags);
          } else if (const std::int64_t i = samples[static_cast<std::size_t>(row - first)]; bags != nullptr) {
            slot.labels[static_cast<std::size_t>(row)] = workspace.reader->read(i, row_of(slot, row), *bags);
          } else {
            read_row(slot, row, i, selection);
          }
          if (plan_->mixes() && row % 2 == 1) mix_pair(slot, row - 1, selection.mix);
        }
      } catch (...) {
        slot.fail(row, std::current_exception());
      }
      workspace.read_ns.store(workspace.read_ns.load(std::memory_order_relaxed) + trace::now_ns() - begin_ns,
                              std::memory_order_relaxed);
    }
    if (!ring_.finish_part(number, parts_)) return;
    if (layout_.slots > 0) gather_bags(slot);
    slot.batch.valid = selection.valid;
    slot.batch.partner_share = selection.mix.share;
    ring_.publish(number);
  }

  void pad_row(BatchSlot& slot, std::int64_t row, BagBuffer* bags) const {
    if (layout_.bytes) {
      std::ranges::fill(bytes_of(slot, row), std::uint8_t{0});
    } else {
      std::ranges::fill(row_of(slot, row), 0.0F);
    }
    slot.labels[static_cast<std::size_t>(row)] = 0;
    std::ranges::fill(targets_of(slot, row), 0.0F);
    for (std::int64_t k = 0; bags != nullptr && k < layout_.slots; ++k) bags->end_bag();
  }

  /// Puts those of all parts into the first.
  static void gather_bags(BatchSlot& slot) noexcept {
    try {
      for (std::size_t part = 1; part < slot.bags.size(); ++part) slot.bags[0].append(slot.bags[part]);
      slot.batch.bags = slot.bags[0].bags();
    } catch (...) {
      slot.fail(0, std::current_exception());
    }
  }

  std::span<float> row_of(BatchSlot& slot, std::int64_t row) const { return row_in(slot.batch.images, row); }
  std::span<std::uint8_t> bytes_of(const BatchSlot& slot, std::int64_t row) const {
    return row_in(slot.bytes(), row);
  }
  std::span<float> targets_of(BatchSlot& slot, std::int64_t row) const {
    const auto width = static_cast<std::size_t>(layout_.targets);
    return std::span(slot.target_values).subspan(static_cast<std::size_t>(row) * width, width);
  }
  template <class Value>
  std::span<Value> row_in(std::span<Value> batch, std::int64_t row) const {
    const auto size = static_cast<std::size_t>(layout_.sample_size);
    return batch.subspan(static_cast<std::size_t>(row) * size, size);
  }
  std::int32_t read_sample(BatchSlot& slot, std::int64_t row, std::int64_t i, std::uint64_t variation) const {
    return layout_.bytes ? data_.read_bytes(i, variation, bytes_of(slot, row))
                         : data_.read(i, variation, row_of(slot, row));
  }

  /// Reads a sample, or the first of its substitutes that can be read.
  void read_row(BatchSlot& slot, std::int64_t row, std::int64_t sample, const Selection& selection) {
    const std::uint64_t variation = variation_of(selection, sample);
    std::int64_t chosen = sample;
    std::exception_ptr why;
    for (std::int64_t attempt = 0;; ++attempt) {
      try {
        slot.labels[static_cast<std::size_t>(row)] = read_sample(slot, row, chosen, variation);
        if (layout_.targets > 0) data_.read_targets(chosen, targets_of(slot, row));
        break;
      } catch (const BadSample& error) {
        if (why == nullptr) why = std::current_exception();
        chosen = plan_->substitute(sample, attempt);
        if (chosen < 0 && keep_bad_) {
          pad_row(slot, row, nullptr);
          return slot.bad(row, error.what());
        }
        if (chosen < 0) std::rethrow_exception(why);
      }
    }
    if (chosen != sample) slot.replaced(sample);
  }

  void mix_pair(BatchSlot& slot, std::int64_t row, const PairMix& how) {
    if (how.cut) {
      exchange(row_of(slot, row), row_of(slot, row + 1), data_.sample_shape(), how.rectangle);
    } else {
      mix(row_of(slot, row), row_of(slot, row + 1), how.share);
    }
    const auto k = static_cast<std::size_t>(row);
    slot.partner_labels[k] = slot.labels[k + 1];
    slot.partner_labels[k + 1] = slot.labels[k];
  }

  const Batch& end() {
    end_ = ring_.slot(0).batch;
    end_.valid = 0;
    return end_;
  }

  void stop() {
    ring_.stop();
    for (std::thread& thread : threads_) thread.join();
  }

  const Dataset& data_;
  std::unique_ptr<const BatchPlan> plan_;
  BatchLayout layout_;
  std::int64_t parts_;  ///< Number of parts of a batch
  bool keep_bad_;
  std::int64_t kept_;
  BatchRing ring_;
  std::vector<Workspace> workspaces_;  ///< One per thread, or for next()
  std::int64_t held_ = -1;             ///< The newest batch that the caller has; batches() or more at the end
  std::int64_t wait_ns_ = 0;
  Batch end_;
  std::vector<std::thread> threads_;
};

}  // namespace

LoaderOptions loader_options(const DataConfig& data) {
  return {.threads = data.threads,
          .prefetch = data.prefetch,
          .sink = {},
          .replace_bad = data.on_bad_image == OnBadImage::replace};
}

std::unique_ptr<Loader> make_training_loader(const Dataset& data, const Sampler& sampler, std::int64_t worker,
                                             Position start, const LoaderOptions& options) {
  require(data.size() == sampler.sharding().samples, "the sampler is made for ", sampler.sharding().samples,
          " samples, the data have ", data.size());
  const bool mixes = options.mixup > 0.0 || options.cutmix > 0.0;
  require(!mixes || data.slots() == 0, "samples with bags cannot be mixed");
  require(!mixes || sampler.sharding().batch % 2 == 0, "mixing needs pairs, got a batch of ",
          sampler.sharding().batch);
  return std::make_unique<ThreadedLoader>(
      data, make_training_plan(sampler, data.sample_shape(), worker, start, options), options);
}

std::unique_ptr<Loader> make_validation_loader(const Dataset& data, ValidationShard shard, std::int64_t batch,
                                               const LoaderOptions& options) {
  require(0 <= shard.begin && shard.begin <= shard.end && shard.end <= data.size() && batch > 0, "no shard ",
          shard.begin, " to ", shard.end, " in ", data.size(), " samples");
  return std::make_unique<ThreadedLoader>(data, make_validation_plan(shard, batch), options);
}

Sharding assign_shards(Sharding sharding, const Dataset& data, ShardBy how) {
  if (how == ShardBy::samples) return sharding;
  sharding.shares = data.deal(how, sharding.workers);
  check_sharding(sharding);
  return sharding;
}

}  // namespace flotilla
